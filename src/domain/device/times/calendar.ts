// When a schedule is due: next due times by the wall clock of a zone, or by the sun at a place. Reads no clock and keeps nothing.
// Zones and wall clock are Temporal's, sunrise and sunset suncalc's; this file only walks from date to date.
import { getPosition, getTimes } from 'suncalc';
import { Temporal } from 'temporal-polyfill';
import type { ScheduleSettings } from '../../../protocol/http/times.ts';
import { weekdays } from '../../../protocol/vocabulary.ts';
import { dayMs, minuteMs } from '../../time.ts';

/** Without `days` all; `zone` is null only if `at` is an instant. */
export type Timing = Pick<ScheduleSettings, 'at' | 'days' | 'zone' | 'from' | 'until' | 'except'>;

/** Sunrise and sunset are those before and after the noon of a date, even if the sunset comes after midnight. */
export type SunTime = Exclude<Timing['at'], string>;

export type Due = {
  dueAtMs: number;
  /** A sentence if the wall clock or the sun is odd on this date. */
  why: string | null;
  /** The due time passes without a run. Its instant is that of the run, or solar noon (with the offset) if the sun does not rise or set. */
  skip: 'no_sun_event' | 'excepted' | null;
};

/** Without its offset, a due time lies on its date or on a neighbouring date: each weekday comes within so many dates. */
const datesToSearch = 10;

/** The sun's center at sunrise and sunset as `getPosition` gives it: 0.833 degrees below the horizon, raised by refraction. */
const horizonDegrees = -0.349;

/** The first due time after `afterMs`; null if none is left. Due times of later dates are never earlier. */
export function nextDue(timing: Timing, afterMs: number): Due | null {
  const { at, zone: ownZone, from, until, except } = timing;
  const zone = ownZone ?? 'UTC';
  if (isOnce(at)) {
    const due = onceAt(at, zone);
    return due.dueAtMs > afterMs ? due : null;
  }
  const days = timing.days ?? weekdays;
  const offsetMs = typeof at === 'string' ? 0 : at.offsetMinutes * minuteMs;
  const start = dateAt(afterMs - offsetMs, zone).subtract({ days: 1 });
  const first = from === null || start.toString() >= from ? start : Temporal.PlainDate.from(from);
  for (let day = 0; day < datesToSearch; day++) {
    const date = first.add({ days: day });
    if (until !== null && date.toString() > until) return null;
    const weekday = weekdays[date.dayOfWeek - 1];
    if (weekday === undefined || !days.includes(weekday)) continue;
    const due = typeof at === 'string' ? clockAt(date, zone, at) : sunAt(date, zone, at);
    if (due.dueAtMs <= afterMs) continue;
    return except.includes(date.toString()) ? { ...due, why: null, skip: 'excepted' } : due;
  }
  return null;
}

/** A date and time, not a time that recurs. */
export function isOnce(at: Timing['at']): at is string {
  return typeof at === 'string' && at.includes('T');
}

/** A date and time without an offset, which needs a zone. */
export function isLocal(at: string): boolean {
  return /T[^Z+-]*$/.test(at);
}

function onceAt(at: string, zone: string): Due {
  if (!isLocal(at)) return { dueAtMs: Date.parse(at), why: null, skip: null };
  const [date = '', time = ''] = at.split('T');
  return clockAt(Temporal.PlainDate.from(date), zone, time);
}

/** Whether this is the name of a zone, such as "Europe/Berlin"; an offset, such as "+01:00", is none. */
export function isZone(zone: string): boolean {
  if (!/^[A-Za-z][\w+/-]*$/.test(zone)) return false;
  try {
    return dateAt(0, zone).year > 0;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Whether the clock is between these times, `HH:MM`; `to` may be on the next day. */
export function isWithinHours({ from, to, zone }: { from: string; to: string; zone: string }, timeMs: number): boolean {
  const clock = Temporal.Instant.fromEpochMilliseconds(timeMs).toZonedDateTimeISO(zone).toPlainTime().toString();
  return from < to ? clock >= from && clock < to : clock >= from || clock < to;
}

/** Days from 1970 to the date at that time. */
export function dayAt(timeMs: number, zone: string): number {
  return dayOf(dateAt(Math.floor(timeMs), zone).toString());
}

export const dayOf = (date: string): number => Date.parse(date) / dayMs;
export const dateOf = (day: number): string => new Date(day * dayMs).toISOString().slice(0, 10);

/** In milliseconds. A date that the zone leaves out begins with the next date. */
export function dayStart(day: number, zone: string): number {
  return Temporal.PlainDate.from(dateOf(day)).toZonedDateTime(zone).epochMilliseconds;
}

function dateAt(timeMs: number, zone: string): Temporal.PlainDate {
  return Temporal.Instant.fromEpochMilliseconds(timeMs).toZonedDateTimeISO(zone).toPlainDate();
}

/** In a gap the clock's time is moved on by the gap's length; of two equal times the first counts. */
function clockAt(date: Temporal.PlainDate, zone: string, time: string): Due {
  const local = date.toPlainDateTime(time);
  const run = local.toZonedDateTime(zone, { disambiguation: 'compatible' });
  const dueAtMs = run.epochMilliseconds;
  if (!run.toPlainDateTime().equals(local)) {
    const runDate = run.toPlainDate().equals(date) ? '' : ` on ${run.toPlainDate().toString()}`;
    const runTime = run.toPlainTime().toString().slice(0, time.length);
    const why = `${time} does not exist on ${date.toString()} in ${zone}; runs at ${runTime}${runDate}`;
    return { dueAtMs, why, skip: null };
  }
  const isTwice = local.toZonedDateTime(zone, { disambiguation: 'later' }).epochMilliseconds !== dueAtMs;
  const why = isTwice ? `${time} comes twice on ${date.toString()} in ${zone}; runs at the first` : null;
  return { dueAtMs, why, skip: null };
}

/** To the minute: a due time computed anew, by another release of suncalc perhaps, is the same due time. */
function sunAt(date: Temporal.PlainDate, zone: string, { sun, offsetMinutes, place }: SunTime): Due {
  const { latitude, longitude } = place;
  // Of the solar noons, suncalc takes the nearest: that of this date, even if the place and the zone are far apart.
  const noonMs = date.toZonedDateTime({ timeZone: zone, plainTime: '12:00' }).epochMilliseconds;
  const { solarNoon, [sun]: event } = getTimes(new Date(noonMs), latitude, longitude);
  // If the sun only grazes the horizon, suncalc's event may be hours or days away from it.
  const hasEvent =
    event !== null &&
    Math.abs(event.getTime() - solarNoon.getTime()) < dayMs / 2 &&
    Math.abs(getPosition(event, latitude, longitude).altitude - horizonDegrees) < 0.1;
  const timeMs = (hasEvent ? event : solarNoon).getTime();
  const dueAtMs = Math.round(timeMs / minuteMs + offsetMinutes) * minuteMs;
  if (hasEvent) return { dueAtMs, why: null, skip: null };
  return { dueAtMs, why: `no ${sun} on this day at this place; skipped`, skip: 'no_sun_event' };
}
