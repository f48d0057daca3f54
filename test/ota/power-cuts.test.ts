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

  it('at every step ends on one of the two, and the service knows on which', async () => {
    const afterwards = { state: 'proved', boots: [oldBoot, `${newBoot}1`] };
    const steps = {
      emptied: afterwards,
      manifest: afterwards,
      'last-byte': afterwards,
      verified: afterwards,
      'before-switch': afterwards,
      'after-switch': { state: 'proved', boots: [`${newBoot}1`] },
      // The trial was cut short: that counts as a new image that did not confirm itself.
      trying: { state: 'rolled_back', boots: [oldBoot] },
      confirmed: { state: 'proved', boots: [`${newBoot}0`] },
    };
    const { devices } = await makers.offer({ devices: Object.keys(steps).length });
    const runs = Object.entries(steps).map(async ([cutStep, expected], index) => {
      const device = devices[index]!;
      let last = await device.boot({ cutStep }).end();
      if (last.code === restart) last = await device.boot({ cutStep }).end();
      expect(last.code, cutStep).toBe(killed);
      const { boots, update } = await makers.supervise(device);
      expect({ state: update?.state, boots }, cutStep).toEqual(expected);
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
