// When a webhook is tried again after failures, and when it is given up. Times come in and go out; it keeps none.
import { dayMs, hourMs, minuteMs, secondMs } from '../../domain/time.ts';

const pausesMs = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, hourMs, 6 * hourMs, dayMs];
const givenUpAfterMs = 5 * dayMs;
/** Devices that wait for a receiver do not all come at the same moment. */
const maxSpreadMs = minuteMs;

/** After so many failures in a row. @param random from 0 to 1 */
export function pauseAfter(failures: number, random = Math.random()): number {
  const pauseMs = pausesMs[Math.min(failures, pausesMs.length) - 1] ?? dayMs;
  return Math.round(pauseMs * (0.8 + 0.4 * random));
}

export type Failing = { sinceMs: number; failures: number; retryAtMs: number };

/** @param random from 0 to 1. Undefined after five days of failures. */
export function failAgain(former: Failing | undefined, nowMs: number, random = Math.random()): Failing | undefined {
  const sinceMs = former?.sinceMs ?? nowMs;
  if (nowMs - sinceMs >= givenUpAfterMs) return undefined;
  const failures = (former?.failures ?? 0) + 1;
  return { sinceMs, failures, retryAtMs: nowMs + pauseAfter(failures, random) };
}

/** When a device that waits for `atMs` comes. */
export function spreadAfter(atMs: number, nowMs: number, random = Math.random()): number {
  return Math.ceil(atMs + random * Math.min(maxSpreadMs, Math.max(secondMs, atMs - nowMs)));
}
