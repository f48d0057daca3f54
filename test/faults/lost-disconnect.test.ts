// A broker that is killed reports no ends of sessions: the service finds out by itself, with all its parts real.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { eventually } from '../../rig/changes.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { WholeService } from '../../rig/services/whole-service.ts';

/** The scheduled job runs every minute. */
const noticedWithinMs = 90_000;

let service: WholeService;

beforeAll(async () => {
  service = await WholeService.start();
});
afterAll(() => service.stop());

describe('a broker that is killed', () => {
  test('leaves no device online that does not come back', async () => {
    const { rig } = service;
    const [gone, back] = [await rig.activate('GONE'), await rig.activate('BACK')];
    const clients = [
      await MqttTestClient.ofDevice(rig.mqttUrl, gone),
      await MqttTestClient.ofDevice(rig.mqttUrl, back),
    ];
    for (const { deviceId } of [gone, back]) await rig.untilStatus(deviceId, ({ online }) => online);
    const seenBefore = Date.now();
    await service.entry.kill('SIGKILL');
    await Promise.all(clients.map((client) => client.untilClosed()));
    await service.restartEntry();
    const returned = await MqttTestClient.ofDevice(rig.mqttUrl, back);
    const read = (deviceId: string) => dataOf(rig.owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));
    await eventually('offline', async () => !(await read(gone.deviceId)).online, noticedWithinMs);
    const { lastOnlineAt } = await read(gone.deviceId);
    expect(Date.parse(lastOnlineAt ?? '')).toBeLessThanOrEqual(seenBefore);
    expect(await read(back.deviceId)).toMatchObject({ online: true });
    await returned.leave();
  });
});
