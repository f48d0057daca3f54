// The power fails at any byte and at every step: the device still boots a genuine image, and ends on the new version.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildOtaClient, OtaDevice, otaClientMissing, type BootOptions } from '../../rig/clients/ota-client.ts';
import { Random } from '../../rig/inputs/random.ts';
import { makeImage, publicPem } from './makers.ts';
import { StandInService } from './stand-in-service.ts';

const cuts = 200;
const cutsOfAnUpdate = 20;
const killed = 'SIGKILL';
const restart = 75;
const oldBoot = 'boot slot=a version=1.9.0 trying=0';
const newBoot = 'boot slot=b version=1.10.0 trying=';
const old = await makeImage('1.9.0');
const next = await makeImage('1.10.0');

describe.skipIf(otaClientMissing !== null)(`a power cut (${otaClientMissing ?? 'built here'})`, () => {
  let program: string;
  let service: StandInService;
  beforeAll(async () => {
    program = buildOtaClient();
    service = await StandInService.start(next.image, next.signed);
  });
  afterAll(() => service.stop());

  const makeDevice = () => new OtaDevice(program, service, publicPem, old.image, old.signed);

  /** Boots until the new version has confirmed itself. Answers the first line of each boot on the way. */
  async function finish(device: OtaDevice, options: BootOptions): Promise<string[]> {
    const boots: string[] = [];
    for (;;) {
      const boot = device.boot(options);
      boots.push(await boot.untilLine('boot'));
      if (boots.at(-1)?.startsWith(newBoot) === true) {
        await boot.untilLine('informed');
        await boot.stop();
        return boots;
      }
      expect(await boot.end()).toMatchObject({ code: restart });
    }
  }

  it.each<[string, BootOptions]>([
    ['HTTP', {}],
    ['MQTT', { isOverMqtt: true }],
  ])(`at any of ${cuts} bytes over %s leaves the old image, and the rest comes later`, async (_, options) => {
    const random = new Random(inject('fuzzSeed'));
    for (let update = 0; update < cuts / cutsOfAnUpdate; update += 1) {
      const device = makeDevice();
      const places = new Set<number>();
      while (places.size < cutsOfAnUpdate) places.add(random.between(1, next.image.length));
      let have = 0;
      for (const place of [...places].toSorted((one, other) => one - other)) {
        const { code, lines } = await device.boot({ ...options, cutAt: place - have }).end();
        expect({ code, lines }, `seed ${inject('fuzzSeed')}`).toEqual({
          code: killed,
          lines: [oldBoot, 'informed', `begin at=${have}`],
        });
        have = place;
      }
      expect(await finish(device, options)).toEqual([oldBoot, `${newBoot}1`]);
    }
  });

  const beforeSwitch = [oldBoot, `${newBoot}1`];
  it.each([
    ['emptied', beforeSwitch],
    ['manifest', beforeSwitch],
    ['last-byte', beforeSwitch],
    ['verified', beforeSwitch],
    ['before-switch', beforeSwitch],
    ['after-switch', [`${newBoot}1`]],
    // The trial was cut short: back to the old image, which holds the whole new one in its other slot.
    ['trying', beforeSwitch],
    ['confirming', [`${newBoot}0`]],
    ['confirmed', [`${newBoot}0`]],
  ])('at the step %s ends on the new version', async (cutStep, boots) => {
    const device = makeDevice();
    let last = await device.boot({ cutStep }).end();
    if (last.code === restart) last = await device.boot({ cutStep }).end();
    expect(last.code).toBe(killed);
    expect(await finish(device, {})).toEqual(boots);
    expect(await finish(device, {})).toEqual([`${newBoot}0`]);
  });

  it('that tears bytes of the part before it brings the whole image again', async () => {
    const device = makeDevice();
    await device.boot({ cutAt: 10_000 }).end();
    const slot = join(device.state, 'slot-b');
    writeFileSync(slot, Buffer.concat([readFileSync(slot).subarray(0, 8_192), Buffer.alloc(1_808)]));
    expect(await finish(device, {})).toEqual(beforeSwitch);
  });
});
