// The power fails at any byte and at every step: the device still boots a genuine image, and the service says which one.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { otaClientMissing, type BootOptions, type OtaDevice } from '../../rig/clients/ota-client.ts';
import { Random } from '../../rig/inputs/random.ts';
import { Makers, newBoot, oldBoot, restart } from './makers.ts';

const cutsOfADevice = 20;
const devicesOfACampaign = 5;
const killed = 'SIGKILL';

describe.skipIf(otaClientMissing !== null)(`a power cut (${otaClientMissing ?? 'built here'})`, () => {
  let makers: Makers;
  beforeAll(async () => {
    makers = await Makers.start();
  });
  afterAll(() => makers.stop());

  async function cut(device: OtaDevice, options: BootOptions, places: number[]) {
    const { deviceId } = device.activation;
    let have = 0;
    for (const cutAt of places) {
      expect(await device.boot({ ...options, cutAt }).end()).toEqual({
        code: killed,
        lines: [oldBoot, 'informed', `begin at=${have}`],
      });
      await expect.poll(async () => (await makers.firmwareOf(deviceId)).installed).toMatchObject(device.booted);
      const { update } = await makers.firmwareOf(deviceId);
      // Restarting: all of it was sent, and the device is gone.
      expect(update?.state).toMatch(/^(accepted|downloading|downloaded|restarting)$/);
      have = cutAt;
    }
    const { boots, update } = await makers.supervise(device, options);
    expect(boots).toEqual([oldBoot, `${newBoot}1`]);
    expect(update).toMatchObject({ state: 'proved', percent: 100 });
  }

  it.each<[string, BootOptions]>([
    ['HTTP', {}],
    ['MQTT', { isOverMqtt: true }],
  ])('at any of 100 bytes over %s leaves the old image, and the rest comes later', async (_, options) => {
    const random = new Random(inject('fuzzSeed'));
    const { devices, next } = await makers.offer({ devices: devicesOfACampaign });
    const runs = devices.map(async (device) => {
      const places = new Set<number>();
      while (places.size < cutsOfADevice) places.add(random.between(1, next.image.length));
      await cut(
        device,
        options,
        [...places].toSorted((one, other) => one - other),
      );
    });
    await Promise.all(runs);
  });

  it('after every change of a file ends on one of the two, and the service knows on which', async () => {
    const again = { state: 'proved', boots: [oldBoot, `${newBoot}1`] };
    const tried = { state: 'proved', boots: [`${newBoot}1`] };
    // The trial was cut short: that counts as a new image that did not confirm itself.
    const back = { state: 'rolled_back', boots: [oldBoot] };
    const download = [again, again, again, again, again, again, tried];
    const trial = [tried, back, back, { state: 'proved', boots: [`${newBoot}0`] }];
    const cuts = [
      ...download.map((end, index) => ({ end, options: [{ cutAfter: index + 1 }] })),
      // The power of a download that has no further change does not fail.
      ...trial.map((end, index) => ({ end, options: [{ cutAfter: download.length + 1 }, { cutAfter: index + 1 }] })),
    ];
    const { devices } = await makers.offer({ devices: cuts.length });
    const runs = cuts.map(async ({ end, options }, index) => {
      const device = devices[index]!;
      const codes: unknown[] = [];
      for (const option of options) codes.push((await device.boot(option).end()).code);
      expect(codes).toEqual(options.length === 1 ? [killed] : [restart, killed]);
      const { boots, update } = await makers.supervise(device);
      expect({ state: update?.state, boots }, JSON.stringify(options)).toEqual(end);
    });
    await Promise.all(runs);
  });

  it('that tears bytes of the part before it brings the whole image again', async () => {
    const { device } = await makers.offer();
    await device.boot({ cutAt: 10_000 }).end();
    const slot = join(device.state, 'slot-b');
    writeFileSync(slot, Buffer.concat([readFileSync(slot).subarray(0, 8_192), Buffer.alloc(1_808)]));
    const { boots, update } = await makers.supervise(device);
    expect([update?.state, boots]).toEqual(['proved', [oldBoot, `${newBoot}1`]]);
  });
});
