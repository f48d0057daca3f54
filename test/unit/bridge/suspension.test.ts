// What tells a suspension of this process or its machine from time that passes.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchSuspension } from '../../../node-service/suspension.ts';

const clocks = { monotonicMs: 0, timeOfDayMs: 0 };
const noticed: number[] = [];
// The watch's own timer would come between the steps of a test.
vi.useFakeTimers({ toFake: ['setInterval'] });
let check: () => void;

beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => clocks.monotonicMs);
  vi.spyOn(Date, 'now').mockImplementation(() => clocks.timeOfDayMs);
  check = watchSuspension((suspendedForMs) => noticed.push(suspendedForMs));
});

afterEach(() => {
  vi.restoreAllMocks();
  noticed.length = 0;
});

function pass(monotonicMs: number, timeOfDayMs = monotonicMs): void {
  clocks.monotonicMs += monotonicMs;
  clocks.timeOfDayMs += timeOfDayMs;
  check();
}

test('a process that was stopped notices it once', () => {
  pass(500);
  pass(60_000);
  pass(500);
  expect(noticed).toEqual([60_000]);
});

test('a machine that slept is noticed, although the monotonic clock stood still meanwhile', () => {
  pass(500, 8 * 3_600_000);
  pass(500);
  expect(noticed).toEqual([8 * 3_600_000]);
});

test('a clock that is set back is no suspension, and what follows is measured from there', () => {
  pass(500, -3_600_000);
  pass(500);
  expect(noticed).toEqual([]);
  pass(0, 5_000);
  expect(noticed).toEqual([5_000]);
});
