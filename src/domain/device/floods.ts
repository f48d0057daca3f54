// Slice: messages that were dropped because the device sends too many, for the owner to see that it happened. One entry
// an hour.
import { areCountsWorthSaving, countInHour, type HourlyCount } from './hourly-counts.ts';

const maxEntries = 24;
const keyOf = () => '';

export function countDropped(floods: readonly HourlyCount[], count: number, nowMs: number): HourlyCount[] {
  return countInHour(floods, {}, { count, nowMs, keyOf, maxEntries });
}

export function areFloodsWorthSaving(saved: readonly HourlyCount[], present: readonly HourlyCount[]): boolean {
  return areCountsWorthSaving(saved, present, keyOf);
}
