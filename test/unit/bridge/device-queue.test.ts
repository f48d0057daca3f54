// Which messages go together in a batch of the bridge, and which batches may be under way beside each other.
import { expect, it } from 'vitest';
import { DeviceQueue, type Queued } from '../../../broker-bridge/src/uplink/device-queue.ts';

const limits = { maxItems: 100, maxDevices: 25, maxBytes: 1_000_000 };

/** `each` messages of every device. */
function fill(devices: readonly string[], each: number): DeviceQueue<Queued> {
  const queue = new DeviceQueue<Queued>({ onReady: () => {}, onPark: () => {}, onFetch: () => {} });
  let seq = 0;
  for (let n = 0; n < each; n += 1) {
    for (const device of devices) queue.add({ device, receivedAtMs: 0, bytes: 10, item: { seq: ++seq } });
  }
  return queue;
}

/** Messages of each device. */
function countByDevice(batch: readonly Queued[]): Record<string, number> {
  const counts = Map.groupBy(batch, ({ device }) => device);
  return Object.fromEntries([...counts].map(([device, items]) => [device, items.length]));
}

const busy = Array.from({ length: 10 }, (_, index) => `busy-${index}`);

it('spreads a few busy devices over all batches that may be under way, each of them full', () => {
  const queue = fill(busy, 100);
  const batches = [4, 3, 2, 1].map((room) => queue.takeBatch('usual', limits, room));
  expect(batches.map(({ length }) => length)).toEqual([100, 100, 100, 100]);
  expect(batches.map((batch) => Object.keys(countByDevice(batch)).length)).toEqual([3, 3, 2, 2]);
  expect(new Set(batches.flat().map(({ device }) => device)).size).toBe(busy.length);
});

it('takes quiet devices into one batch, however many may be under way', () => {
  expect(fill(busy, 10).takeBatch('usual', limits, 4)).toHaveLength(100);
});

it('has no device in two batches at once, and hands on what it sent meanwhile behind what was not taken', () => {
  const queue = fill(['a', 'b'], 100);
  const first = queue.takeBatch('usual', limits, 2);
  const second = queue.takeBatch('usual', limits, 1);
  expect([first, second].map((batch) => Object.keys(countByDevice(batch)))).toEqual([['a'], ['b']]);
  queue.add({ device: 'a', receivedAtMs: 0, bytes: 10, item: { seq: 1000 } });
  expect(queue.takeBatch('usual', limits, 1)).toEqual([]);
  queue.finish(first, new Map([[first[99]!, false]]));
  expect(queue.takeBatch('usual', limits, 1).map(({ item }) => item.seq)).toEqual([first[99]!.item.seq, 1000]);
});
