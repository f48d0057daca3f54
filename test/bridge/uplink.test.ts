// From the spool to the Worker over real HTTP, with a Worker that fails in every way it can.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DeadLetters } from '../../broker-bridge/src/dead-letters.ts';
import type { Log } from '../../broker-bridge/src/log.ts';
import { createMetrics } from '../../broker-bridge/src/metrics.ts';
import { Spool } from '../../broker-bridge/src/spool.ts';
import { UplinkClient } from '../../broker-bridge/src/uplink-client.ts';
import { Uplink } from '../../broker-bridge/src/uplink.ts';
import { droppedReason, maxBatchDevices } from '../../src/protocol/bridge.ts';
import { reportTopic } from '../rig/mqtt-client.ts';
import { bridgeSecret, makeSpoolDir } from '../rig/bridge-process.ts';
import { WorkerSide } from '../rig/worker-side.ts';

const noLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const answerTimeoutMs = 300;

let worker: WorkerSide;
let spool: Spool;
let uplink: Uplink;
let dir: string;

async function start(secret = bridgeSecret, log = noLog): Promise<void> {
  ({ spool } = await Spool.open({ dir, maxBytes: 100_000_000, bridgeId: 'bridge-1', log: noLog }));
  uplink = new Uplink({
    spool,
    client: new UplinkClient(worker.url, secret, answerTimeoutMs),
    deadLetters: new DeadLetters(dir),
    log,
    metrics: createMetrics(),
  });
  uplink.start();
}

async function stop(): Promise<void> {
  await uplink.drain(0);
  await spool.close();
}

beforeEach(async () => {
  dir = makeSpoolDir();
  worker = await WorkerSide.start();
  await start();
});
afterEach(async () => {
  await stop();
  await worker.stop();
});

function spoolReport(device: string, payload: string, onCommitted = (): void => undefined): void {
  spool.append(
    {
      receivedAtMs: Date.now(),
      topic: reportTopic(device),
      payload: Buffer.from(payload),
      retain: false,
      dup: false,
      soleReader: false,
      redeliveryOf: null,
    },
    null,
    onCommitted,
  );
}

/** Reports named `device:number`, the devices taking turns. */
function spoolReports(count: number, devices: number): void {
  for (let n = 0; n < count; n += 1) spoolReport(`d${n % devices}`, `d${n % devices}:${n}`);
}

const untilEffects = (count: number): Promise<void> =>
  worker.changes.until(
    () => `${count} effects, there are ${worker.effects.length}`,
    () => worker.effects.length === count,
  );
const untilEmpty = (): Promise<void> => worker.changes.until('an empty spool', () => spool.depth === 0);

function expectOrderKept(): void {
  const lastByDevice = new Map<string, number>();
  for (const effect of worker.effects) {
    const [device, number] = effect.split(':') as [string, string];
    expect(Number(number)).toBeGreaterThan(lastByDevice.get(device) ?? -1);
    lastByDevice.set(device, Number(number));
  }
  expect(worker.violations).toEqual([]);
}

function readDeadLetters(): Record<string, unknown>[] {
  const lines = readFileSync(join(dir, 'dead-letters.jsonl'), 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('batches', () => {
  test('a lone message goes without waiting for others', async () => {
    spoolReports(1, 1);
    await untilEffects(1);
    expect(worker.batches.length).toBe(1);
  });

  test('many messages go in full batches, several at a time, each device’s in order', async () => {
    worker.setFaults({ delayMs: 10 });
    spoolReports(5000, 200);
    await untilEffects(5000);
    expectOrderKept();
    expect(worker.mostUnderWay).toBeGreaterThan(1);
    expect(worker.batches.length).toBeLessThan(60);
  });

  test('a batch has no more devices than the Worker can serve in one request', async () => {
    worker.setFaults({ delayMs: 10 });
    spoolReports(2000, 600);
    await untilEffects(2000);
    expectOrderKept();
    const devices = worker.batches.map(({ items }) => new Set(items.map(({ topic }) => topic)).size);
    expect(Math.max(...devices)).toBe(maxBatchDevices);
  });

  test('one device alone has one batch under way at a time', async () => {
    worker.setFaults({ delayMs: 5 });
    spoolReports(1000, 1);
    await untilEffects(1000);
    expectOrderKept();
    expect(worker.mostUnderWay).toBe(1);
  });

  test('a body stays below the limit whatever the messages weigh', async () => {
    for (let n = 0; n < 60; n += 1) spoolReport(`d${n % 5}`, `d${n % 5}:${n}`.padEnd(60_000, '"'));
    await untilEffects(60);
    expect(worker.violations).toEqual([]);
  });
});

describe('a Worker in trouble', () => {
  const troubles = [
    ['answers 503', { status: 503 }],
    ['answers 500', { status: 500 }],
    ['answers 408', { status: 408 }],
    ['answers 404', { status: 404 }],
    ['answers 429', { status: 429, retryAfter: '0' }],
    ['does not answer', { isHanging: true }],
    ['answers nonsense', { answersNonsense: true }],
    ['takes batches and drops its answers', { dropsAnswers: true }],
    ['is slow beyond all patience', { delayMs: answerTimeoutMs * 2 }],
  ] as const;
  test.each(troubles)('one that %s for a while costs nothing', async (_name, faults) => {
    worker.setFaults(faults);
    spoolReports(300, 7);
    await worker.changes.until('three attempts', () => worker.requests >= 3);
    worker.setFaults({});
    await untilEffects(300);
    await untilEmpty();
    expect(new Set(worker.effects).size).toBe(300);
    // A request given up here may still be under way there: only the Worker's own numbers can tell.
    if ('delayMs' in faults) worker.violations.length = 0;
    expectOrderKept();
  });

  test('one that is away altogether is found again', async () => {
    const { port } = worker;
    await worker.stop();
    spoolReports(50, 3);
    worker = await WorkerSide.start({ port });
    await untilEffects(50);
    expectOrderKept();
  });

  test('one that asks for time gets it', async () => {
    await stop();
    const pauses: unknown[] = [];
    await start(bridgeSecret, { ...noLog, warn: (_message, fields) => pauses.push(fields) });
    worker.setFaults({ status: 429, retryAfter: '60' });
    spoolReports(1, 1);
    await worker.changes.until('a pause', () => pauses.length > 0);
    // Another message on the disk is an occasion to send.
    await new Promise<void>((resolve) => spoolReport('d2', 'd2:1', resolve));
    // Ends at once, but not before the answer to a request that is under way.
    await uplink.drain(10_000);
    expect(worker.requests).toBe(1);
    expect(pauses).toMatchObject([{ retryInMs: 60_000 }]);
  });

  test('one that refuses the secret is asked again only much later, and nothing is lost', async () => {
    await stop();
    const alarms: unknown[] = [];
    const log: Log = { ...noLog, error: (_message, fields) => alarms.push(fields) };
    await start('another-secret-that-the-worker-does-not-know', log);
    spoolReports(10, 2);
    await worker.changes.until('a refusal', () => uplink.isUnauthorized);
    // Another message on the disk is an occasion to send.
    await new Promise<void>((resolve) => spoolReport('d3', 'd3:10', resolve));
    expect(worker.requests).toBe(1);
    expect(alarms).toMatchObject([{ alarm: true, retryInMs: 30_000 }]);
    expect(uplink.isUnauthorized).toBe(true);
    expect(spool.depth).toBe(11);
  });

  test('what was not sent before a restart is sent after it, once', async () => {
    worker.setFaults({ status: 503 });
    spoolReports(100, 4);
    await worker.changes.until('an attempt', () => worker.requests > 0);
    await stop();
    worker.setFaults({});
    await start();
    await untilEffects(100);
    expectOrderKept();
  });
});

describe('answers for single messages', () => {
  test('a rejected message is kept for a human with its reason, and the rest goes on', async () => {
    worker.setFaults({
      judge: (item) =>
        item.payload?.endsWith('7') === true ? { result: 'rejected', reason: 'not JSON' } : { result: 'accepted' },
    });
    spoolReports(100, 10);
    await untilEffects(90);
    await untilEmpty();
    const letters = readDeadLetters();
    expect(letters).toHaveLength(10);
    expect(letters[0]).toMatchObject({ reason: 'not JSON', item: { seq: 8, payload: 'd7:7' } });
  });

  test('a message that its device sent beyond its limit is forgotten, not kept', async () => {
    worker.setFaults({
      judge: (item) => {
        if (item.payload?.endsWith('7') === true) return { result: 'rejected', reason: droppedReason };
        return item.payload?.endsWith('8') === true
          ? { result: 'rejected', reason: 'not JSON' }
          : { result: 'accepted' };
      },
    });
    spoolReports(100, 10);
    await untilEffects(80);
    await untilEmpty();
    expect(readDeadLetters().map(({ reason }) => reason)).toEqual(Array.from({ length: 10 }, () => 'not JSON'));
  });

  test('"retry" holds back one device and nobody else', async () => {
    let isDeviceBusy = true;
    worker.setFaults({
      judge: (item) => ({ result: isDeviceBusy && item.topic === reportTopic('d1') ? 'retry' : 'accepted' }),
    });
    spoolReports(400, 4);
    await untilEffects(300);
    isDeviceBusy = false;
    await untilEffects(400);
    expectOrderKept();
  });

  test('a message that the answer forgets is sent again', async () => {
    let forgotten = 0;
    worker.setFaults({
      judge: () => ({ result: forgotten++ === 0 ? ('forgotten' as 'retry') : 'accepted' }),
    });
    spoolReports(3, 1);
    await untilEffects(3);
  });

  test('a batch that is too large is halved until it fits', async () => {
    worker.setFaults({ maxItems: 10 });
    spoolReports(200, 5);
    await untilEffects(200);
    expectOrderKept();
    expect(worker.batches.every(({ items }) => items.length <= 10)).toBe(true);
  });

  test('a batch that the Worker calls invalid costs only the message that is', async () => {
    worker.setFaults({ refusesBatchWith: (item) => item.payload === 'd2:42' });
    spoolReports(100, 5);
    await untilEffects(99);
    await untilEmpty();
    expectOrderKept();
    expect(readDeadLetters()).toMatchObject([{ reason: 'invalid_request', item: { payload: 'd2:42' } }]);
  });

  test('a message too large for any request is put aside without being sent', async () => {
    spoolReport('d1', 'd1:0');
    spoolReport('d1', `d1:1${'x'.repeat(1_100_000)}`);
    spoolReport('d1', 'd1:2');
    await untilEffects(2);
    expect(worker.effects).toEqual(['d1:0', 'd1:2']);
    expect(worker.violations).toEqual([]);
    expect(readDeadLetters()).toMatchObject([{ reason: 'too large for one request' }]);
  });
});
