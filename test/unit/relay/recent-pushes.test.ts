// The pushes that a relay shard remembers, so that it pushes a retried batch of a bridge once.
import { expect, it } from 'vitest';
import { maxRecentDevices as max, RecentPushes } from '../../../src/objects/relay/recent-pushes.ts';

type Result = 'accepted' | 'duplicate' | 'redelivery';

/** @param results by the numbers of their messages */
function runOf(spoolId: string, results: Record<number, Result>, receivedAtMs = 0, deviceId = 'device') {
  const seqs = Object.keys(results).map(Number);
  return {
    ...{ deviceId, topic: 't', payloads: seqs.map(() => '{}'), generations: [] },
    origin: { spoolId, seqs, receivedAtMs: seqs.map(() => receivedAtMs), results: Object.values(results) },
  };
}

it('pushes what is retried once, and the rest of its batch', () => {
  const pushed = new RecentPushes();
  expect(pushed.takeNew(runOf('one', { 1: 'accepted' }))).toEqual([0]);
  expect(pushed.takeNew(runOf('one', { 1: 'duplicate', 2: 'accepted' }))).toEqual([1]);
});

it('takes what the device had before this memory began for pushed, whatever other spools have brought since', () => {
  const pushed = new RecentPushes();
  const before = Date.now() - 1_000;
  expect(pushed.takeNew(runOf('other', { 1: 'accepted' }))).toEqual([0]);
  const retried = runOf('one', { 7: 'duplicate', 8: 'duplicate', 9: 'accepted' }, before);
  expect(pushed.takeNew(retried)).toEqual([2]);
  expect(pushed.takeNew(retried)).toEqual([]);
});

it('pushes what the device took meanwhile without an answer: it was not pushed', () => {
  const pushed = new RecentPushes();
  const since = Date.now() + 1_000;
  expect(pushed.takeNew(runOf('one', { 1: 'duplicate' }, since))).toEqual([0]);
  expect(pushed.takeNew(runOf('one', { 1: 'duplicate' }, since))).toEqual([]);
});

it('forgets what was pushed for the least recent device beyond the limit', () => {
  const pushed = new RecentPushes();
  const one = (n: number) => runOf('one', { 1: 'accepted' }, 0, `device ${n}`);
  for (let n = 0; n <= max; n += 1) expect(pushed.takeNew(one(n))).toEqual([0]);
  expect(pushed.takeNew(one(1)), 'a batch that is retried').toEqual([]);
  expect(pushed.takeNew(one(0))).toEqual([0]);
});
