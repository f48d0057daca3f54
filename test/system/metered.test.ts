// What one report, command and status view cost, counted by what the platform charges for; and how large the bundle is. The
// built Worker with a counter in front of it, a real bridge and broker. Nothing is timed.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAedes, type TestBroker } from '../../rig/brokers/aedes.ts';
import { sendCommand, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { buildOnce } from '../../rig/worker/built-worker.ts';
import { eventually } from '../../rig/changes.ts';
import {
  advanceClock,
  meteredFront,
  readMeter,
  reportConnected,
  resetMeter,
  type Counts,
} from '../../rig/worker/meter.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

/** Of the gzipped bundle that is uploaded. */
const maxBundleBytes = 400 * 1024;
const minuteMs = 60_000;
const untilQuietMs = 600;

let broker: TestBroker;
let rig: WorkerRig;
let device: Activation;
let seq = 0;

/** One message in a batch of its own: the dearest way for a report to come. */
async function sendReport(params: Record<string, unknown>): Promise<void> {
  seq += 1;
  const payload = JSON.stringify({ method: 'thing.event.property.post', id: String(seq), params });
  await rig.sendBatch([{ topic: device.topics.propertyPost, payload }]);
}

/** What `work` has used when nothing goes on any more. */
async function count(work: () => Promise<unknown>): Promise<Counts> {
  await untilQuiet();
  await resetMeter(rig.url);
  await work();
  return untilQuiet();
}

async function untilQuiet(): Promise<Counts> {
  let last = '';
  let sinceMs = Date.now();
  await eventually('a Worker that rests', async () => {
    const now = JSON.stringify(await readMeter(rig.url));
    if (now !== last) sinceMs = Date.now();
    last = now;
    return Date.now() - sinceMs > untilQuietMs;
  });
  return JSON.parse(last) as Counts;
}

beforeAll(async () => {
  broker = await startAedes();
  // The scheduled job would be counted, too.
  const vars = { BROKER_REPORTS_CONNECTIONS: 'true', SCHEDULE_SECONDS: '86400' };
  rig = await WorkerRig.start({ mqttPort: broker.port, frontModule: meteredFront, vars });
  device = await rig.activate('METERED');
  await rig.startBridge().untilReady();
  await reportConnected(rig.url, device);
  await sendReport({ position: 'up', wifi_rssi: -50 });
});
afterAll(async () => {
  await rig.stop();
  await broker.stop();
});

describe('what the platform charges for', () => {
  test('the bundle is no larger than it may be, compressed', async () => {
    const dir = await buildOnce();
    const bytes = gzipSync(readFileSync(join(dir, 'index.js'))).length;
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(maxBundleBytes);
  });

  test('a status view is one call of one object, without D1', async () => {
    const { deviceId } = device;
    const used = await count(() => dataOf(rig.owner.api.devices[':deviceId'].status.$get({ param: { deviceId } })));
    expect(used).toMatchObject({ requests: 1, 'object calls': 1, 'DeviceSession.status': 1 });
    expectNothing(used, 'D1 statements', 'object rows written', 'object alarms set');
  });

  test('hundreds of status views read the list of revoked users once a second, and nothing else of D1', async () => {
    const { deviceId } = device;
    const view = () => dataOf(rig.owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));
    const startedAtMs = Date.now();
    const used = await count(async () => {
      for (let views = 0; views < 200; views += 1) await view();
    });
    expectNothing(used, 'D1 statements');
    expect(used['D1 reads of revoked users']).toBeGreaterThan(0);
    expect(used['D1 reads of revoked users']).toBeLessThanOrEqual(1 + (Date.now() - startedAtMs) / 1000);
  });

  test('a report that changes nothing is one call of its object, and writes nothing', async () => {
    const used = await count(() => sendReport({ position: 'up', wifi_rssi: -51 }));
    expect(used).toMatchObject({ requests: 1, 'DeviceSession.ingest': 1 });
    expectNothing(used, 'D1 statements', 'object rows written', 'object alarms set');
    expect(used['object calls']).toBe(1);
  });

  test('a report of another position writes one row, and none in D1', async () => {
    const used = await count(() => sendReport({ position: 'down', wifi_rssi: -60 }));
    expect(used).toMatchObject({ requests: 1, 'DeviceSession.ingest': 1 });
    expectNothing(used, 'D1 statements', 'D1 rows written');
    expect(used['object rows written']).toBe(1);
  });

  test('a command is one call of its object and one of the link, without D1', async () => {
    const used = await count(() => sendCommand(rig.owner.api, device, { action: 'toggle', position: 'up' }));
    expect(used).toMatchObject({ requests: 1, 'DeviceSession.command': 1 });
    expectNothing(used, 'D1 statements');
    expect(used['object calls']).toBe(2);
    expect(used['object rows written']).toBeLessThanOrEqual(4);
  });

  // The last one: to the link its bridge has been silent for minutes then.
  test('a report a minute that changes nothing writes no row each where the broker reports connections', async () => {
    // What the command before has left is over then.
    await advanceClock(rig.url, 10 * minuteMs);
    await sendReport({ position: 'up', wifi_rssi: -70 });
    const used = await count(async () => {
      for (let minute = 0; minute < 5; minute += 1) {
        await advanceClock(rig.url, minuteMs);
        await sendReport({ position: 'up', wifi_rssi: -52 - minute });
      }
    });
    expect(used).toMatchObject({ 'DeviceSession.ingest': 5 });
    expect(used['FleetDirectory.ask']).toBeUndefined();
    expectNothing(used, 'D1 statements');
    // Alarms for what takes longer.
    expect(used['DeviceSession rows written'] ?? 0).toBeLessThan(5);
  });
});

function expectNothing(used: Counts, ...names: string[]): void {
  expect(Object.fromEntries(names.map((name) => [name, used[name] ?? 0]))).toEqual(
    Object.fromEntries(names.map((name) => [name, 0])),
  );
}
