// From the spool to the Worker over real HTTP, with a Worker that fails in every way it can.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Log } from '../../node-service/log.ts';
import { droppedReason, maxBatchDevices, type UplinkItem } from '../../src/protocol/bridge.ts';
import { bridgeSecret, readDeadLetters } from '../../rig/services/processes.ts';
import { reportTopic } from '../../rig/clients/mqtt-client.ts';
import { deadLettersMaxBytes, noLog, UplinkRig } from '../../rig/services/uplink-rig.ts';

const impatientMs = 300;

let rig: UplinkRig;

beforeEach(async () => {
  rig = await UplinkRig.start();
});
afterEach(() => rig.stop());

/** An uplink that soon gives up a request which is not answered. */
async function openImpatient(): Promise<void> {
  await rig.close();
  await rig.open(bridgeSecret, noLog, impatientMs);
}

describe('batches', () => {
  test('a lone message goes without waiting for others', async () => {
    rig.spoolReports(1, 1);
    await rig.untilEffects(1);
    expect(rig.worker.batches.length).toBe(1);
  });

  test('many messages go in full batches, several at a time, each device’s in order', async () => {
    rig.worker.setFaults({ delayMs: 10 });
    rig.spoolReports(5000, 200);
    await rig.untilEffects(5000);
    expect(rig.disorders()).toEqual([]);
    expect(rig.worker.mostUnderWay).toBeGreaterThan(1);
    expect(rig.worker.batches.length).toBeLessThan(60);
  });

  test('a batch has no more devices than the Worker can serve in one request', async () => {
    rig.worker.setFaults({ delayMs: 10 });
    rig.spoolReports(2000, 600);
    await rig.untilEffects(2000);
    expect(rig.disorders()).toEqual([]);
    const devices = rig.worker.batches.map(({ items }) => new Set(items.map(({ topic }) => topic)).size);
    expect(Math.max(...devices)).toBe(maxBatchDevices);
  });

  test('one device alone has one batch under way at a time', async () => {
    rig.worker.setFaults({ delayMs: 5 });
    rig.spoolReports(1000, 1);
    await rig.untilEffects(1000);
    expect(rig.disorders()).toEqual([]);
    expect(rig.worker.mostUnderWay).toBe(1);
  });

  test('a body stays below the limit whatever the messages weigh', async () => {
    for (let n = 0; n < 200; n += 1) rig.spoolReport(`d${n % 5}`, `d${n % 5}:${n}`.padEnd(16_000, '"'));
    await rig.untilEffects(200);
    expect(rig.worker.violations).toEqual([]);
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
    ['is slow beyond all patience', { delayMs: impatientMs * 2 }],
  ] as const;
  test.each(troubles)('one that %s for a while costs nothing', async (_name, faults) => {
    await openImpatient();
    rig.worker.setFaults(faults);
    rig.spoolReports(300, 7);
    await rig.worker.changes.until('three attempts', () => rig.worker.requests >= 3);
    rig.worker.setFaults({});
    await rig.untilEffects(300);
    await rig.untilEmpty();
    expect(new Set(rig.worker.effects).size).toBe(300);
    // A request given up here may still be under way there: only the Worker's own numbers can tell.
    if ('delayMs' in faults) rig.worker.violations.length = 0;
    expect(rig.disorders()).toEqual([]);
  });

  test('one that is heard of again is not waited for any longer', async () => {
    await rig.close();
    const pauses: unknown[] = [];
    await rig.open(bridgeSecret, { ...noLog, warn: (_message, fields) => pauses.push(fields) });
    // A back-off of 200 s.
    const random = vi.spyOn(Math, 'random').mockReturnValue(1000);
    rig.worker.setFaults({ status: 503 });
    rig.spoolReports(3, 1);
    await rig.worker.changes.until('a pause', () => pauses.length > 0);
    random.mockRestore();
    expect(pauses).toMatchObject([{ retryInMs: 200_000 }]);
    rig.worker.setFaults({});
    rig.uplink.resume();
    await rig.untilEffects(3);
    expect(rig.disorders()).toEqual([]);
  });

  test('one that asks for time gets it', async () => {
    await rig.close();
    const pauses: unknown[] = [];
    await rig.open(bridgeSecret, { ...noLog, warn: (_message, fields) => pauses.push(fields) });
    rig.worker.setFaults({ status: 429, retryAfter: '60' });
    rig.spoolReports(1, 1);
    await rig.worker.changes.until('a pause', () => pauses.length > 0);
    // Another message on the disk is an occasion to send, and so is a link.
    await new Promise<void>((resolve) => rig.spoolReport('d2', 'd2:1', resolve));
    rig.uplink.resume();
    // Ends at once, but not before the answer to a request that is under way.
    await rig.uplink.drain(10_000);
    expect(rig.worker.requests).toBe(1);
    expect(pauses).toMatchObject([{ retryInMs: 60_000 }]);
  });

  test('one that refuses the secret is asked again only much later, and nothing is lost', async () => {
    await rig.close();
    const alarms: unknown[] = [];
    const log: Log = { ...noLog, error: (_message, fields) => alarms.push(fields) };
    await rig.open('another-secret-that-the-worker-does-not-know', log);
    rig.spoolReports(10, 2);
    await rig.worker.changes.until('a refusal', () => rig.uplink.isUnauthorized());
    // Another message on the disk is an occasion to send.
    await new Promise<void>((resolve) => rig.spoolReport('d3', 'd3:10', resolve));
    expect(rig.worker.requests).toBe(1);
    expect(alarms).toMatchObject([{ alarm: true, retryInMs: 30_000 }]);
    expect(rig.uplink.isUnauthorized()).toBe(true);
    expect(rig.spool.depth).toBe(11);
  });
});

describe('answers for single messages', () => {
  test('a rejected message is kept for a human with its reason, but not one beyond the limit of its device', async () => {
    const reasons: Record<string, string> = { 7: droppedReason, 8: 'not JSON' };
    rig.worker.setFaults({
      judge: ({ payload }) => {
        const reason = reasons[payload?.at(-1) ?? ''];
        return reason === undefined ? { result: 'accepted' } : { result: 'rejected', reason };
      },
    });
    rig.spoolReports(100, 10);
    await rig.untilEffects(80);
    await rig.untilEmpty();
    const letters = readDeadLetters(rig.dir);
    expect(letters.map(({ reason }) => reason)).toEqual(Array.from({ length: 10 }, () => 'not JSON'));
    expect(letters[0]).toMatchObject({ item: { seq: 9, payload: 'd8:8' } });
  });

  test('a message that the answer forgets is sent again', async () => {
    let forgotten = 0;
    rig.worker.setFaults({
      judge: () => ({ result: forgotten++ === 0 ? ('forgotten' as 'retry') : 'accepted' }),
    });
    rig.spoolReports(3, 1);
    await rig.untilEffects(3);
  });

  test('a batch that is too large is halved until it fits', async () => {
    rig.worker.setFaults({ maxItems: 10 });
    rig.spoolReports(200, 5);
    await rig.untilEffects(200);
    expect(rig.disorders()).toEqual([]);
    expect(rig.worker.batches.every(({ items }) => items.length <= 10)).toBe(true);
  });

  test('a batch that the Worker calls invalid costs only the message that is', async () => {
    rig.worker.setFaults({ statusWith: ({ payload }) => (payload === 'd2:42' ? 400 : undefined) });
    rig.spoolReports(100, 5);
    await rig.untilEffects(99);
    await rig.untilEmpty();
    expect(rig.disorders()).toEqual([]);
    expect(readDeadLetters(rig.dir)).toMatchObject([{ reason: 'invalid_request', item: { payload: 'd2:42' } }]);
  });

  test('a message that is too large goes up without its payload, and is put aside with its head and its size', async () => {
    rig.spoolReport('d1', 'd1:0');
    rig.spoolReport('d1', `d1:1${'x'.repeat(1_100_000)}`);
    rig.spoolReport('d1', 'd1:2');
    await rig.untilEffects(2);
    expect(rig.worker.effects).toEqual(['d1:0', 'd1:2']);
    expect(rig.worker.violations).toEqual([]);
    await rig.untilEmpty();
    const sent = rig.worker.batches.flatMap(({ items }) => items);
    expect(sent.map(({ payload }) => payload)).toEqual(['d1:0', undefined, 'd1:2']);
    const head = `d1:1${'x'.repeat(1020)}`;
    expect(readDeadLetters(rig.dir)).toMatchObject([
      { reason: 'too_large', item: { payload: head, payloadBytes: 1_100_004 } },
    ]);
  });

  test('dead letters take no more of the disk than they may, whatever is in them', async () => {
    rig.worker.setFaults({ judge: () => ({ result: 'rejected', reason: 'not JSON' }) });
    for (let n = 0; n < 400; n += 1) rig.spoolReport(`d${n % 5}`, `${n}:`.padEnd(16_000, '\u0001'));
    await rig.worker.changes.until('all on the disk', () => rig.spool.pendingCount() === 0);
    await rig.untilEmpty();
    const names = readdirSync(rig.dir).filter((name) => name.startsWith('dead-letters'));
    const bytes = names.reduce((sum, name) => sum + statSync(join(rig.dir, name)).size, 0);
    expect(names).toHaveLength(5);
    expect(bytes).toBeLessThanOrEqual(deadLettersMaxBytes);
    const last = readDeadLetters(rig.dir).at(-1);
    expect(last?.item.payload).toMatch(/^3\d\d:/);
  });
});

describe('many devices', () => {
  test('one that floods takes a share of each batch, and the others go with the next', async () => {
    await openImpatient();
    rig.worker.setFaults({ isHanging: true });
    rig.spoolReports(1, 1);
    await rig.worker.changes.until('a batch under way', () => rig.worker.requests === 1);
    for (let n = 0; n < 5000; n += 1) rig.spoolReport('flood', `flood:${n}`);
    for (let n = 0; n < 10; n += 1) rig.spoolReport(`q${n}`, `q${n}:0`);
    await rig.worker.changes.until('all on the disk', () => rig.spool.pendingCount() === 0);
    rig.worker.setFaults({});
    await rig.untilEffects(5011);
    const firstOfQuiet = rig.worker.effects.findLastIndex((effect) => effect.startsWith('q'));
    expect(firstOfQuiet).toBeLessThan(1000);
    expect(rig.disorders()).toEqual([]);
  });

  test('one that hangs leaves room for the others, however much of it waits, and goes on in order', async () => {
    let isHanging = true;
    const held = (item: UplinkItem): boolean => isHanging && item.topic === reportTopic('d0');
    rig.worker.setFaults({ judge: (item) => ({ result: held(item) ? 'retry' : 'accepted' }) });
    // More than the spool hands out at most.
    for (let n = 0; n < 30_000; n += 1) rig.spoolReport('d0', `d0:${n}`);
    for (let n = 0; n < 5; n += 1) rig.spoolReport('d1', `d1:${n}`);
    await rig.untilEffects(5);
    isHanging = false;
    await rig.worker.changes.until('all of them', () => rig.worker.effects.length === 30_005);
    expect(rig.disorders()).toEqual([]);
    await rig.untilEmpty();
  });

  test('those that are not served take no part of the batches of the others', async () => {
    rig.worker.setFaults({
      judge: (item) => ({ result: item.topic === reportTopic('d1') ? 'retry' : 'accepted' }),
    });
    for (let n = 0; rig.worker.batches.length < 30; n += 1) {
      rig.spoolReport('d1', `d1:${n}`);
      rig.spoolReport('d2', `d2:${n}`);
      await rig.worker.untilEffects(`d2:${n}`);
    }
    const mixed = rig.worker.batches.filter(({ items }) => new Set(items.map(({ topic }) => topic)).size > 1);
    expect(mixed.length).toBeLessThanOrEqual(1);
  });
});
