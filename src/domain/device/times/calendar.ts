// When a schedule is due: next due times by the wall clock of a zone, or by the sun at a place. Reads no clock and keeps nothing.
// Zones and wall clock are Temporal's, sunrise and sunset suncalc's; this file only walks from date to date.
import { getPosition, getTimes } from 'suncalc';
import { Temporal } from 'temporal-polyfill';
import { weekdays } from '../../../protocol/vocabulary.ts';
import { dayMs, minuteMs } from '../../time.ts';

type Weekday = (typeof weekdays)[number];

/** `time` is "HH:MM". */
type WallTime = { time: string };

/** Sunrise and sunset are those before and after the noon of a date, even if the sunset comes after midnight. */
export type SunTime = {
  sun: 'sunrise' | 'sunset';
  offsetMinutes: number;
  place: { latitude: number; longitude: number };
};

export type Recurring = {
  kind: 'recurring';
  at: WallTime | SunTime;
  days: readonly Weekday[];
  /** An IANA name, see `isZone`. */
  zone: string;
  /** First and last date, and single dates without a run: "YYYY-MM-DD" in the zone. */
  from: string | null;
  until: string | null;
  except: readonly string[];
};

export type Timing = { kind: 'once'; atMs: number } | Recurring;

export type Due = {
  dueAtMs: number;
  /** A sentence if the wall clock or the sun is odd on this date. */
  why: string | null;
  /** The due time passes without a run. Its instant is that of the run, or solar noon (with the offset) if the sun does not rise or set. */
  skip: 'no_sun_event' | 'excepted' | null;
};

type Moment = Omit<Due, 'skip'> & { isMissing?: true };

/** Without its offset, a due time lies on its date or on a neighbouring date: each weekday comes within so many dates. */
const datesToSearch = 10;

/** The sun's center at sunrise and sunset as `getPosition` gives it: 0.833 degrees below the horizon, raised by refraction. */
const horizonDegrees = -0.349;

/** The first due time after `afterMs`; null if none is left. Due times of later dates are never earlier. */
export function nextDue(timing: Timing, afterMs: number): Due | null {
  if (timing.kind === 'once') return timing.atMs > afterMs ? { dueAtMs: timing.atMs, why: null, skip: null } : null;
  const { at, days, zone, from, until, except } = timing;
  const offsetMs = 'sun' in at ? at.offsetMinutes * minuteMs : 0;
  const start = dateAt(afterMs - offsetMs, zone).subtract({ days: 1 });
  const first = from === null || start.toString() >= from ? start : Temporal.PlainDate.from(from);
  for (let day = 0; day < datesToSearch; day++) {
    const date = first.add({ days: day });
    if (until !== null && date.toString() > until) return null;
    const weekday = weekdays[date.dayOfWeek - 1];
    if (weekday === undefined || !days.includes(weekday)) continue;
    const { dueAtMs, why, isMissing } = 'sun' in at ? sunAt(date, zone, at) : clockAt(date, zone, at.time);
    if (dueAtMs <= afterMs) continue;
    if (except.includes(date.toString())) return { dueAtMs, why: null, skip: 'excepted' };
    return { dueAtMs, why, skip: isMissing ? 'no_sun_event' : null };
  }
  return null;
}

/** The instant of a local "YYYY-MM-DDTHH:MM", seconds optional; undefined if there is no such date, time or zone. */
export function instantOfLocal(local: string, zone: string): { atMs: number; why: string | null } | undefined {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:[0-5]\d)?$/.test(local) || !isZone(zone)) return undefined;
  try {
    const [date = '', time = ''] = local.split('T');
    const { dueAtMs, why } = clockAt(Temporal.PlainDate.from(date), zone, time);
    return { atMs: dueAtMs, why };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
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

function dateAt(timeMs: number, zone: string): Temporal.PlainDate {
  return Temporal.Instant.fromEpochMilliseconds(timeMs).toZonedDateTimeISO(zone).toPlainDate();
}

/** In a gap the clock's time is moved on by the gap's length; of two equal times the first counts. */
function clockAt(date: Temporal.PlainDate, zone: string, time: string): Moment {
  const local = date.toPlainDateTime(time);
  const run = local.toZonedDateTime(zone, { disambiguation: 'compatible' });
  const dueAtMs = run.epochMilliseconds;
  if (!run.toPlainDateTime().equals(local)) {
    const runDate = run.toPlainDate().equals(date) ? '' : ` on ${run.toPlainDate().toString()}`;
    const runTime = run.toPlainTime().toString().slice(0, time.length);
    return { dueAtMs, why: `${time} does not exist on ${date.toString()} in ${zone}; runs at ${runTime}${runDate}` };
  }
  const isTwice = local.toZonedDateTime(zone, { disambiguation: 'later' }).epochMilliseconds !== dueAtMs;
  return { dueAtMs, why: isTwice ? `${time} comes twice on ${date.toString()} in ${zone}; runs at the first` : null };
}

/** To the minute: a due time computed anew, by another release of suncalc perhaps, is the same due time. */
function sunAt(date: Temporal.PlainDate, zone: string, { sun, offsetMinutes, place }: SunTime): Moment {
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
  if (hasEvent) return { dueAtMs, why: null };
  return { dueAtMs, why: `no ${sun} on this day at this place; skipped`, isMissing: true };
}
