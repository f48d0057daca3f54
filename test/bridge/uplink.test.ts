// From the spool to the Worker over real HTTP, with a Worker that fails in every way it can.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DeadLetters } from '../../broker-bridge/src/dead-letters.ts';
import { DroppedMessages } from '../../broker-bridge/src/dropped-messages.ts';
import type { Log } from '../../broker-bridge/src/log.ts';
import { createMetrics } from '../../broker-bridge/src/metrics.ts';
import { Spool } from '../../broker-bridge/src/spool.ts';
import { UplinkClient } from '../../broker-bridge/src/uplink-client.ts';
import { prepare } from '../../broker-bridge/src/uplink-message.ts';
import { Uplink } from '../../broker-bridge/src/uplink.ts';
import { droppedReason, maxBatchDevices, messageFailed, type UplinkItem } from '../../src/protocol/bridge.ts';
import { reportTopic } from '../rig/mqtt-client.ts';
import { bridgeSecret, makeSpoolDir } from '../rig/bridge-process.ts';
import { WorkerSide } from '../rig/worker-side.ts';

const noLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const answerTimeoutMs = 300;
const deadLettersMaxBytes = 1_048_576;

let worker: WorkerSide;
let spool: Spool;
let uplink: Uplink;
let dir: string;

async function start(secret = bridgeSecret, log = noLog): Promise<void> {
  ({ spool } = await Spool.open({ dir, maxBytes: 100_000_000, bridgeId: 'bridge-1', log: noLog }));
  uplink = new Uplink({
    spool,
    client: new UplinkClient(worker.url, secret, answerTimeoutMs),
    deadLetters: new DeadLetters({ dir, maxBytes: deadLettersMaxBytes }),
    log,
    metrics: createMetrics(),
    dropped: new DroppedMessages(),
    maxTries: 3,
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
      trueBytes: null,
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
    for (let n = 0; n < 200; n += 1) spoolReport(`d${n % 5}`, `d${n % 5}:${n}`.padEnd(16_000, '"'));
    await untilEffects(200);
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

  test('a message that is too large is put aside without being sent, with its head and its size', async () => {
    spoolReport('d1', 'd1:0');
    spoolReport('d1', `d1:1${'x'.repeat(1_100_000)}`);
    spoolReport('d1', 'd1:2');
    await untilEffects(2);
    expect(worker.effects).toEqual(['d1:0', 'd1:2']);
    expect(worker.violations).toEqual([]);
    const head = `d1:1${'x'.repeat(1020)}`;
    expect(readDeadLetters()).toMatchObject([
      { reason: 'too_large', item: { payload: head, payloadBytes: 1_100_004 } },
    ]);
  });

  test('a message that cannot be prepared is put aside, and the others go up', async () => {
    spoolReport('d1', 'd1:0');
    const payload = 'no buffer' as unknown as Buffer;
    const facts = { retain: false, dup: false, soleReader: false, redeliveryOf: null, trueBytes: null };
    const item = { seq: 9, receivedAtMs: 1, topic: reportTopic('d1'), payload, ...facts };
    expect(prepare(item)).toMatchObject({ refusal: expect.stringContaining('cannot be prepared') as string });
    await untilEffects(1);
  });

  test('dead letters take no more of the disk than they may, whatever is in them', async () => {
    worker.setFaults({ judge: () => ({ result: 'rejected', reason: 'not JSON' }) });
    for (let n = 0; n < 400; n += 1) spoolReport(`d${n % 5}`, `${n}:`.padEnd(16_000, '\u0001'));
    await worker.changes.until('all on the disk', () => spool.pendingCount === 0);
    await untilEmpty();
    const names = readdirSync(dir).filter((name) => name.startsWith('dead-letters'));
    const bytes = names.reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
    expect(names).toHaveLength(5);
    expect(bytes).toBeLessThanOrEqual(deadLettersMaxBytes);
    const last = readDeadLetters().at(-1) as { item: { payload: string } };
    expect(last.item.payload).toMatch(/^3\d\d:/);
  });
});

describe('a message that can never be taken', () => {
  const isPoison = (item: UplinkItem): boolean => item.payload === 'd1:poison';

  test('is given up after some tries while others are taken, and its device goes on', async () => {
    let poisoned: number | undefined;
    worker.setFaults({
      judge: (item) => {
        if (isPoison(item)) poisoned = worker.batches.length;
        const isBehind = item.topic === reportTopic('d1') && poisoned === worker.batches.length;
        if (!isBehind) return { result: 'accepted' };
        return { result: 'retry', reason: isPoison(item) ? messageFailed : 'device_failed' };
      },
    });
    spoolReport('d1', 'd1:poison');
    spoolReport('d1', 'd1:2');
    await worker.changes.until('a try', () => worker.batches.length > 0);
    for (let n = 0; worker.effects.every((effect) => effect !== 'd1:2'); n += 1) {
      spoolReport('d2', `d2:${n}`);
      await worker.changes.until('another one taken', () => worker.effects.includes(`d2:${n}`));
    }
    expect(readDeadLetters()).toMatchObject([{ reason: messageFailed, item: { payload: 'd1:poison' } }]);
    expectOrderKept();
  });

  test.each([
    ['its device cannot be reached', 'device_unreachable'],
    ['its device is overloaded', 'device_overloaded'],
    ['its device does not answer', 'device_timeout'],
    ['its object fails altogether', 'device_failed'],
  ])('is another thing than that %s: the message stays', async (_, reason) => {
    let tries = 0;
    worker.setFaults({
      judge: (item) => {
        if (!isPoison(item)) return { result: 'accepted' };
        tries += 1;
        return { result: 'retry', reason };
      },
    });
    spoolReport('d1', 'd1:poison');
    for (let n = 0; tries < 5; n += 1) {
      spoolReport('d2', `d2:${n}`);
      await worker.changes.until('another one taken', () => worker.effects.includes(`d2:${n}`));
    }
    worker.setFaults({});
    await worker.changes.until('the message in effect', () => worker.effects.includes('d1:poison'));
    expect(existsSync(join(dir, 'dead-letters.jsonl'))).toBe(false);
  });

  test('is not given up while nothing else is taken', async () => {
    let tries = 0;
    worker.setFaults({
      judge: () => {
        tries += 1;
        return { result: 'retry', reason: messageFailed };
      },
    });
    spoolReport('d1', 'd1:poison');
    spoolReport('d2', 'd2:1');
    await worker.changes.until('many tries', () => tries >= 8);
    worker.setFaults({});
    await untilEffects(2);
    expect(existsSync(join(dir, 'dead-letters.jsonl'))).toBe(false);
  });

  test('does not stop the others where the Worker itself fails with it', async () => {
    worker.setFaults({ failsBatchWith: isPoison });
    spoolReports(100, 10);
    spoolReport('d1', 'd1:poison');
    let n = 100;
    await untilEffects(100);
    while (!existsSync(join(dir, 'dead-letters.jsonl'))) {
      spoolReport('d2', `d2:${n}`);
      await worker.changes.until('another one taken', () => worker.effects.includes(`d2:${n}`));
      n += 1;
    }
    await untilEmpty();
    expect(readDeadLetters()).toMatchObject([{ reason: 'a fault on request', item: { payload: 'd1:poison' } }]);
    expectOrderKept();
  });
});

describe('many devices', () => {
  test('one that floods takes a share of each batch, and the others go with the next', async () => {
    worker.setFaults({ isHanging: true });
    spoolReports(1, 1);
    await worker.changes.until('a batch under way', () => worker.requests === 1);
    for (let n = 0; n < 5000; n += 1) spoolReport('flood', `flood:${n}`);
    for (let n = 0; n < 10; n += 1) spoolReport(`q${n}`, `q${n}:0`);
    await worker.changes.until('all on the disk', () => spool.pendingCount === 0);
    worker.setFaults({});
    await untilEffects(5011);
    const firstOfQuiet = worker.effects.findLastIndex((effect) => effect.startsWith('q'));
    expect(firstOfQuiet).toBeLessThan(1000);
    expectOrderKept();
  });

  test('one that hangs leaves room for the others, however much of it waits, and goes on in order', async () => {
    let isHanging = true;
    const held = (item: UplinkItem): boolean => isHanging && item.topic === reportTopic('d0');
    worker.setFaults({ judge: (item) => ({ result: held(item) ? 'retry' : 'accepted' }) });
    // More than the spool hands out at most.
    for (let n = 0; n < 30_000; n += 1) spoolReport('d0', `d0:${n}`);
    for (let n = 0; n < 5; n += 1) spoolReport('d1', `d1:${n}`);
    await untilEffects(5);
    isHanging = false;
    await worker.changes.until('all of them', () => worker.effects.length === 30_005, 15_000);
    expectOrderKept();
    await untilEmpty();
  });

  test('those that are not served take no part of the batches of the others', async () => {
    worker.setFaults({
      judge: (item) => ({ result: item.topic === reportTopic('d1') ? 'retry' : 'accepted' }),
    });
    for (let n = 0; worker.batches.length < 30; n += 1) {
      spoolReport('d1', `d1:${n}`);
      spoolReport('d2', `d2:${n}`);
      await worker.changes.until('another one taken', () => worker.effects.includes(`d2:${n}`));
    }
    const mixed = worker.batches.filter(({ items }) => new Set(items.map(({ topic }) => topic)).size > 1);
    expect(mixed.length).toBeLessThanOrEqual(1);
  });
});
