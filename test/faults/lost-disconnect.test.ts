// A broker that is killed reports no ends of sessions: the service finds out by itself, with all its parts real.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { eventually } from '../../rig/changes.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { LocalBroker } from '../../rig/services/processes.ts';
import { findFreePort } from '../../rig/ports.ts';
import { hookSecret, WorkerRig } from '../../rig/worker/worker-rig.ts';

const api = { BROKER_API_KEY: 'key', BROKER_API_SECRET: 'secret' };
/** The scheduled job runs every minute. */
const noticedWithinMs = 90_000;

let rig: WorkerRig;
let adminPort: number;
let broker: LocalBroker;

async function startBroker(): Promise<void> {
  const environment = { ...api, MQTT_PORT: String(rig.mqttPort), BROKER_ADMIN_PORT: String(adminPort) };
  broker = await LocalBroker.start({ workerUrl: rig.url, hookSecret, environment });
}

beforeAll(async () => {
  adminPort = await findFreePort();
  const reporting = { BROKER_REPORTS_CONNECTIONS: 'true', BROKER_API_URL: `http://127.0.0.1:${adminPort}` };
  rig = await WorkerRig.start({ vars: { ...reporting, ...api } });
  await startBroker();
  await rig.startBridge().untilReady();
});
afterAll(async () => {
  await broker.kill('SIGKILL');
  await rig.stop();
});

describe('a broker that is killed', () => {
  test('leaves no device online that does not come back', async () => {
    const [gone, back] = [await rig.activate('GONE'), await rig.activate('BACK')];
    const clients = [
      await MqttTestClient.ofDevice(rig.mqttUrl, gone),
      await MqttTestClient.ofDevice(rig.mqttUrl, back),
    ];
    for (const { deviceId } of [gone, back]) await rig.untilStatus(deviceId, ({ online }) => online);
    const seenBefore = Date.now();
    await broker.kill('SIGKILL');
    await Promise.all(clients.map((client) => client.untilClosed()));
    await startBroker();
    const returned = await MqttTestClient.ofDevice(rig.mqttUrl, back);
    const read = (deviceId: string) => dataOf(rig.owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));
    await eventually('offline', async () => !(await read(gone.deviceId)).online, noticedWithinMs);
    const { lastOnlineAt } = await read(gone.deviceId);
    expect(Date.parse(lastOnlineAt ?? '')).toBeLessThanOrEqual(seenBefore);
    expect(await read(back.deviceId)).toMatchObject({ online: true });
    await returned.leave();
  });
});
