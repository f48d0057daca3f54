// What users read of usage and history: days in steps, and buckets of one property. Queries on the state and on the rows that
// storage has; they change nothing. A day without a row is not known.
import type { HistoryQuery, HistoryView, RangeQuery, UsageQuery, UsageView } from '../../../protocol/http/usage.ts';
import { accept, refuse, type Outcome } from '../../refusal.ts';
import { toIso } from '../../time.ts';
import { daysKept } from '../core/history.ts';
import type { DeviceState } from '../core/state.ts';
import { dateOf, dayAt, dayOf, dayStart } from '../times/calendar.ts';
import { combine, hourFrom, presentSeries, type SeriesDay } from './series.ts';
import { advance, countUntil, emptyDay, secondsOf, type Day } from './usage.ts';

const maxPoints = 400;
const defaultDays = 30;
/** Days that give no more points. */
const mostDays = { quarter: 4, hour: 16, day: daysKept.hours };

/** @param most days in the range @param kept days until today */
export function rangeOf({ from, to }: RangeQuery, today: number, kept: number = daysKept.day, most = kept) {
  const last = to === undefined ? today : Math.min(dayOf(to), today);
  const first = from === undefined ? last - Math.min(defaultDays, most) + 1 : dayOf(from);
  const wrong = (problem: string) => refuse({ kind: 'invalid_input', path: 'from', problem });
  if (first > last) return wrong('must not be after `to`, nor after today');
  if (last - first >= most) return wrong(`at most ${most} days at once with this step`);
  if (first <= today - kept) return wrong(`${dateOf(today - kept + 1)} is the first day that is kept`);
  return accept({ first, last });
}

const groupOf: Record<UsageQuery['step'], (day: number) => number | string> = {
  day: (day) => day,
  // 1970 began on a Thursday.
  week: (day) => day - ((day + 3) % 7),
  month: (day) => dateOf(day).slice(0, 7),
};

export function viewUsage(
  state: DeviceState,
  query: UsageQuery,
  daysIn: (first: number, last: number) => readonly Day[],
  zone: string,
  nowMs: number,
): Outcome<UsageView> {
  const { usage: advanced, closed } = advance(state.usage, nowMs, () => zone);
  const usage = countUntil(advanced, nowMs);
  const range = rangeOf(query, usage.today.day);
  if (!range.ok) return range;
  const { first, last } = range.value;
  const today = { ...usage.today, toMs: Math.max(usage.today.fromMs, nowMs) };
  const known = new Map([...daysIn(first, last), ...closed, today].map((day) => [day.day, day]));
  const days = Array.from({ length: last - first + 1 }, (_, index) => {
    const day = first + index;
    return known.get(day) ?? emptyDay(day, zone, dayStart(day, zone), dayStart(day + 1, zone));
  });
  const list = [...Map.groupBy(days, ({ day }) => groupOf[query.step](day)).values()].map(viewStep);
  const [{ changes, isCut } = emptyDay(0, '', 0, 0)] = days;
  const isSingle = query.step === 'day' && first === last;
  return accept({ list, ...(isSingle && { timeline: { changes: [...changes], isCut } }) });
}

function viewStep(days: readonly Day[]): UsageView['list'][number] {
  const [first, last] = [days[0], days.at(-1)];
  return {
    from: dateOf(first?.day ?? 0),
    to: dateOf(last?.day ?? 0),
    zone: last?.zone ?? '',
    ...addUp(days.map(secondsOf)),
    presses: addUp(days.map(({ presses }) => presses)),
    ...addUp(days.map(({ failures }) => ({ failures }))),
  };
}

/** Member by member. */
function addUp<Name extends string>([first, ...others]: readonly Record<Name, number>[]) {
  const names = Object.keys(first ?? {}) as Name[];
  const sum = (name: Name) => others.reduce((total, one) => total + one[name], first?.[name] ?? 0);
  return Object.fromEntries(names.map((name) => [name, sum(name)])) as Record<Name, number>;
}

export function viewHistory(
  state: DeviceState,
  { property, step, ...query }: HistoryQuery,
  daysIn: (kind: 'quarters' | 'hours', first: number, last: number) => readonly SeriesDay[],
  zone: string,
  nowMs: number,
): Outcome<HistoryView> {
  const kind = step === 'quarter' ? 'quarters' : 'hours';
  const range = rangeOf(query, dayAt(nowMs, zone), daysKept[kind], mostDays[step]);
  if (!range.ok) return range;
  const { first, last } = range.value;
  const { day, fromMs } = state.usage.today;
  const present = day < first || day > last ? [] : [{ day, fromMs, buckets: presentSeries(state) }];
  const points = [...daysIn(kind, first, last), ...present].flatMap((one) => {
    const fromOf = { quarter: undefined, hour: hourFrom(one), day: () => one.fromMs }[step];
    const buckets = one.buckets.filter(([name]) => name === property);
    return combine(buckets, fromOf).sort(([, earlier], [, later]) => earlier - later);
  });
  const list = points.slice(0, maxPoints).map(([, atMs, least, greatest, sum, latest, count]) => {
    return { at: toIso(atMs), least, greatest, mean: sum / count, last: latest, count };
  });
  return accept({ property, zone, list });
}
