// How many batches a bridge has under way, by how far the Worker is and how long it takes.
import { expect, it } from 'vitest';
import { resizeWindow, smallestWindow } from '../../../broker-bridge/src/uplink/uplink.ts';

/** A Worker that handles one batch after the other; answers how many are under way in the end. */
function settle(roundTripMs: number | null, perBatchMs: number): number[] {
  let size = smallestWindow;
  return Array.from({ length: 100 }, () => {
    const answerMs = Math.max(size * perBatchMs, (roundTripMs ?? 0) + perBatchMs);
    size = resizeWindow(size, answerMs, roundTripMs);
    return size;
  });
}

it.each([
  ['near', 0.3, 20, 3, 3],
  ['30 ms away, in each direction', 60, 20, 4, 6],
  ['on another continent', 250, 20, 12, 12],
  ['far and slow', 100, 200, 3, 3],
])('where the Worker is %s', (_, roundTripMs, perBatchMs, least, most) => {
  const sizes = settle(roundTripMs, perBatchMs);
  const last = sizes.slice(-20);
  expect(Math.min(...last)).toBeGreaterThanOrEqual(least);
  expect(Math.max(...last)).toBeLessThanOrEqual(most);
});

it('keeps the Worker busy: the way costs no throughput once it has settled', () => {
  const size = settle(60, 20).at(-1)!;
  expect(size * 20).toBeGreaterThanOrEqual(60 + 20);
});

it('stays small where the way was not measured', () => {
  expect(settle(null, 20).at(-1)).toBe(3);
});
