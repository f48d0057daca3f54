// What devices know of subscriptions to all of them, over a kill of the Worker: each asks once, and hears of new subscribers. The
// built Worker with a counter in front of it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Activation } from '../../rig/clients/accounts.ts';
import { meteredFront, readMeter } from '../../rig/worker/meter.ts';
import { RelayClient } from '../../rig/clients/relay-client.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

const everything = '/sys/+/+/#';

let rig: WorkerRig;
let devices: Activation[];

/** One of each device. */
async function sendReports(id: string): Promise<void> {
  const payload = JSON.stringify({ id, params: { position: 'up' } });
  await rig.sendBatch(devices.map(({ topics }) => ({ topic: topics.propertyPost, payload })));
}

async function follow(): Promise<RelayClient> {
  const client = await RelayClient.open(rig.url);
  await client.follow({ token: rig.owner.token }, [everything]);
  return client;
}

async function expectReports(client: RelayClient, id: string): Promise<void> {
  await sendReports(id);
  for (const { topics } of devices) {
    await client.untilPushed(topics.propertyPost, (payload) => (payload as { id: string }).id === id);
  }
}

beforeAll(async () => {
  rig = await WorkerRig.start({ frontModule: meteredFront, vars: { SCHEDULE_SECONDS: '86400' } });
  devices = await rig.activateMany(3);
  await sendReports('first');
});
afterAll(() => rig.stop());

test('a device that was told nobody listens hears of who does, after a kill of the Worker too', async () => {
  await rig.restartWorker('kill');
  const client = await follow();
  await expectReports(client, 'told');
  await rig.restartWorker('kill');
  const next = await follow();
  await expectReports(next, 'told again');
  await expectReports(next, 'within a lease');
  expect((await readMeter(rig.url))['FleetDirectory.ask']).toBe(devices.length);
  next.close();
});

test('a device that is made while somebody follows all devices is among them', async () => {
  const client = await follow();
  devices.push(await rig.activate('LATER'));
  await expectReports(client, 'one more');
  client.close();
});
