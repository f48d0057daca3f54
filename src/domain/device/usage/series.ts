// Slices: what the device reported of numeric properties, in buckets of 15 minutes: those of the present hour, which are saved with
// what else changes, and those of the day before it. A day that ends becomes two rows: its quarters, and its hours.
import type { Json } from '../../json.ts';
import { hourMs, minuteMs } from '../../time.ts';
import { appendHistory } from '../core/history.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { dayAt, dayStart } from '../times/calendar.ts';
import type { Day } from './usage.ts';

export type Bucket = readonly [
  name: string,
  fromMs: number,
  least: number,
  greatest: number,
  sum: number,
  last: number,
  count: number,
];

export type SeriesDay = { day: number; fromMs: number; buckets: readonly Bucket[] };

const quarterMs = 15 * minuteMs;
/** Of a day, the first that come. */
export const maxSeries = 8;
/** A sum of larger ones might be no number. */
const maxValue = 1e15;

export const samplesSlice: Slice<readonly Bucket[]> = {
  initial: [],
  row: 'activity',
  // The first of a bucket is. What comes later in it is saved with a changed value, or lost with the object.
  isWorthSaving: ({ samples: saved }, { samples }) =>
    samples.some(([name, fromMs]) => !saved.some((bucket) => bucket[0] === name && bucket[1] === fromMs)),
  onNewOwner: 'forget',
};

export const seriesSlice: Slice<readonly Bucket[]> = { initial: [], row: 'own', onNewOwner: 'forget' };

export function sample(state: DeviceState, reported: ReadonlyMap<string, Json>, atMs: number): DeviceState {
  const fromMs = Math.floor(atMs / quarterMs) * quarterMs;
  if (fromMs < state.usage.today.fromMs) return state;
  const names = new Set([...state.samples, ...state.series].map(([name]) => name));
  const fresh = [...reported].flatMap(([name, value]): Bucket[] => {
    if (typeof value !== 'number' || Math.abs(value) > maxValue) return [];
    if (names.size >= maxSeries && !names.has(name)) return [];
    names.add(name);
    return [[name, fromMs, value, value, value, value, 1]];
  });
  if (fresh.length === 0) return state;
  const isSameHour = (bucket: Bucket) => Math.floor(bucket[1] / hourMs) === Math.floor(fromMs / hourMs);
  if (state.samples.every(isSameHour)) return { ...state, samples: combine([...state.samples, ...fresh]) };
  return { ...state, series: combine([...state.series, ...state.samples]), samples: fresh };
}

/** Those of the same property and beginning become one. @param fromOf the new beginning of a bucket */
export function combine(buckets: readonly Bucket[], fromOf: (fromMs: number) => number = Number): Bucket[] {
  const combined = new Map<string, Bucket>();
  for (const [name, atMs, ...values] of buckets) {
    const fromMs = fromOf(atMs);
    const key = `${fromMs} ${name}`;
    const [min, max, added, last, times] = values;
    const [, , least, greatest, sum, , count] = combined.get(key) ?? [name, fromMs, min, max, 0, last, 0];
    combined.set(key, [name, fromMs, Math.min(least, min), Math.max(greatest, max), sum + added, last, count + times]);
  }
  return [...combined.values()];
}

/** The beginning of the hour of a day: hours begin with the day. */
export function hourFrom({ fromMs }: Pick<SeriesDay, 'fromMs'>): (atMs: number) => number {
  return (atMs) => atMs - ((atMs - fromMs) % hourMs);
}

/** What was sampled before the present day is of the former, or of days between them that came at once. */
export function closeSeries(state: DeviceState, former: Day): DeviceState {
  const { fromMs: presentMs } = state.usage.today;
  const isPresent = ([, atMs]: Bucket) => atMs >= presentMs;
  const ended = presentSeries(state).filter((bucket) => !isPresent(bucket));
  if (ended.length === 0) return state;
  const dayOf = ([, atMs]: Bucket) => (atMs < former.toMs ? former.day : dayAt(atMs, former.zone));
  let next = { ...state, series: state.series.filter(isPresent), samples: state.samples.filter(isPresent) };
  for (const [day, buckets] of Map.groupBy(ended, dayOf)) {
    const fromMs = day === former.day ? former.fromMs : dayStart(day, former.zone);
    const hours = combine(buckets, hourFrom({ fromMs }));
    next = appendHistory(next, { kind: 'quarters', number: day, entry: { day, fromMs, buckets } });
    next = appendHistory(next, { kind: 'hours', number: day, entry: { day, fromMs, buckets: hours } });
  }
  return next;
}

export function presentSeries({ series, samples }: DeviceState): Bucket[] {
  return combine([...series, ...samples]);
}
