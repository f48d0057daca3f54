// Due times of schedules against computations that share nothing with them: another implementation of Temporal for zones, and
// NOAA's algorithm for the sun.
import { Temporal } from '@js-temporal/polyfill';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isZone, nextDue, type Due, type Timing, type SunTime } from '../../../src/domain/device/times/calendar.ts';
import { scheduleBodySchema } from '../../../src/protocol/http/times.ts';
import { weekdays } from '../../../src/protocol/vocabulary.ts';
import { dayMs, minuteMs } from '../../../src/domain/time.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { always } from './core-device.ts';

const zones = Intl.supportedValuesOf('timeZone');
const year2027 = { from: '2027-01-01', until: '2027-12-31' };
/** Latitude and longitude where suncalc finds events of other days. */
const poles = [
  [-90, 0],
  [-89.5, -139.3],
  [-89.1, -65.3],
  [89.9, 0],
  [90, 0],
];

/** The due times after `fromMs` up to `toMs`, each computed from the one before. Without `until` there is always a next. */
function duesBetween(timing: Timing, fromMs: number, toMs: number): Due[] {
  const dues: Due[] = [];
  for (let afterMs = fromMs; ;) {
    const due = nextDue(timing, afterMs);
    if (due === null && timing.until === null) throw new Error('a schedule without an end has ended');
    if (due === null || due.dueAtMs > toMs) return dues;
    if (due.dueAtMs <= afterMs) throw new Error('a due time is not after the one before');
    dues.push(due);
    afterMs = due.dueAtMs;
  }
}

function tell(timing: Timing, after: string, days: number) {
  const fromMs = Date.parse(after);
  const lines = duesBetween(timing, fromMs, fromMs + days * dayMs);
  return lines.map(({ dueAtMs, why, skip }) => [new Date(dueAtMs).toISOString().slice(0, 16), why, skip]);
}

const sunAt = (sun: SunTime['sun'], latitude: number, longitude: number, zone: string, more: Partial<Timing>) => ({
  ...always,
  at: { sun, offsetMinutes: 0, place: { latitude, longitude } },
  zone,
  ...more,
});

/** The due time of a schedule for this date and time alone. */
function dueAt(zone: string, local: Temporal.PlainDateTime): Due | null {
  const [date, time] = local.toString().split('T');
  return nextDue({ ...always, at: time!.slice(0, 5), zone, from: date!, until: date! }, 0);
}

function oracleDueAt(zone: string, local: Temporal.PlainDateTime): Due {
  const [earlier, later] = (['earlier', 'later'] as const).map((disambiguation) =>
    local.toZonedDateTime(zone, { disambiguation }),
  );
  const due = (run: Temporal.ZonedDateTime, why: string | null) => ({
    dueAtMs: run.epochMilliseconds,
    why,
    skip: null,
  });
  if (earlier!.equals(later!)) return due(earlier!, null);
  const [date, time] = local.toString().split('T');
  if (earlier!.toPlainDateTime().equals(local)) {
    return due(earlier!, `${time!.slice(0, 5)} comes twice on ${date} in ${zone}; runs at the first`);
  }
  const [runDate, runTime] = later!.toPlainDateTime().toString().split('T');
  const on = runDate === date ? '' : ` on ${runDate}`;
  return due(later!, `${time!.slice(0, 5)} does not exist on ${date} in ${zone}; runs at ${runTime!.slice(0, 5)}${on}`);
}

/** The zone without changes in which the sun is highest near noon. */
function zoneOfPlace(longitude: number): string {
  const hours = Math.round(longitude / 15);
  return `Etc/GMT${hours > 0 ? '-' : '+'}${Math.abs(hours)}`;
}

/** Sunrise or sunset by the equations of NOAA's solar calculator (gml.noaa.gov/grad/solcalc), repeated until it settles. */
function noaaEvent(sun: SunTime['sun'], dateMs: number, latitude: number, longitude: number) {
  const { sin, cos, tan, asin, acos, abs, PI } = Math;
  const rad = PI / 180;
  const at = (minutes: number) => {
    const t = ((dateMs + minutes * minuteMs) / dayMs + 2_440_587.5 - 2_451_545) / 36_525;
    const meanLongitude = (280.46646 + t * (36_000.76983 + t * 0.0003032)) * rad;
    const anomaly = (357.52911 + t * (35_999.05029 - 0.0001537 * t)) * rad;
    const eccentricity = 0.016708634 - t * (0.000042037 + 0.0000001267 * t);
    const center =
      sin(anomaly) * (1.914602 - t * (0.004817 + 0.000014 * t)) +
      sin(2 * anomaly) * (0.019993 - 0.000101 * t) +
      sin(3 * anomaly) * 0.000289;
    const node = (125.04 - 1934.136 * t) * rad;
    const apparentLongitude = meanLongitude + (center - 0.00569 - 0.00478 * sin(node)) * rad;
    const seconds = 21.448 - t * (46.815 + t * (0.00059 - t * 0.001813));
    const obliquity = (23 + (26 + seconds / 60) / 60 + 0.00256 * cos(node)) * rad;
    const declination = asin(sin(obliquity) * sin(apparentLongitude));
    const y = tan(obliquity / 2) ** 2;
    const equationOfTime =
      y * sin(2 * meanLongitude) -
      2 * eccentricity * sin(anomaly) +
      4 * eccentricity * y * sin(anomaly) * cos(2 * meanLongitude) -
      0.5 * y * y * sin(4 * meanLongitude) -
      1.25 * eccentricity * eccentricity * sin(2 * anomaly);
    const cosHour =
      cos(90.833 * rad) / (cos(latitude * rad) * cos(declination)) - tan(latitude * rad) * tan(declination);
    const hour = (acos(cosHour) / rad) * (sun === 'sunrise' ? 1 : -1);
    const noon = 720 - 4 * longitude - (4 * equationOfTime) / rad;
    const angle = ((minutes - noon) / 4) * rad;
    const lat = latitude * rad;
    const height = asin(sin(lat) * sin(declination) + cos(lat) * cos(declination) * cos(angle)) / rad;
    return { cosHour, noon, minutes: noon - 4 * hour, height };
  };
  const { cosHour, noon } = at(720 - 4 * longitude);
  let { minutes } = at(noon);
  for (let round = 0; round < 5; round++) minutes = at(minutes).minutes;
  // Near these days half a day's change of the declination decides whether there is an event.
  const isEdge = abs(abs(cosHour) - 1) < 0.03;
  const heightAt = (timeMs: number) => at((timeMs - dateMs) / minuteMs).height;
  return { isEdge, atMs: abs(cosHour) > 1 ? null : dateMs + minutes * minuteMs, heightAt };
}

describe('a due time by the wall clock', () => {
  it('comes once for two dates that are the same instant, as when Samoa left out a day', () => {
    const apia = { ...always, at: '10:00', zone: 'Pacific/Apia' };
    const instants = tell(apia, '2011-12-28T21:00Z', 3).map(([at]) => at);
    expect(instants).toEqual(['2011-12-29T20:00', '2011-12-30T20:00', '2011-12-31T20:00']);
  });

  it('agrees with another Temporal at every change of every clock from 2026 to 2037', () => {
    const end = Temporal.Instant.from('2038-01-01T00:00Z');
    let gaps = 0;
    let overlaps = 0;
    for (const zone of zones) {
      let change = Temporal.Instant.from('2026-01-01T00:00Z').toZonedDateTimeISO(zone).getTimeZoneTransition('next');
      for (; change !== null && change.epochMilliseconds < end.epochMilliseconds;) {
        const last = change.subtract({ nanoseconds: 1 });
        const movedMinutes = (change.offsetNanoseconds - last.offsetNanoseconds) / 6e10;
        if (movedMinutes > 0) gaps++;
        else overlaps++;
        const first = last
          .toPlainDateTime()
          .round('minute')
          .subtract({ minutes: Math.max(0, -movedMinutes) });
        const length = Math.abs(movedMinutes);
        for (const minutes of [-1, 0, length - 1, length]) {
          const local = first.add({ minutes });
          expect(dueAt(zone, local)).toEqual(oracleDueAt(zone, local));
        }
        change = change.getTimeZoneTransition('next');
      }
    }
    expect(Math.min(gaps, overlaps)).toBeGreaterThan(1_000);
  });
});

it('a one-shot is an instant, or a date and time that exist', () => {
  const next = (at: string, afterMs = 0) => nextDue({ ...always, at, zone: 'Europe/Berlin' }, afterMs);
  const dueAtMs = Date.parse('2026-12-01T17:30Z');
  for (const at of ['2026-12-01T18:30', '2026-12-01T17:30:00Z', '2026-12-01T18:30:00+01:00']) {
    expect([at, next(at)]).toEqual([at, { dueAtMs, why: null, skip: null }]);
    expect(next(at, dueAtMs)).toBeNull();
  }
  expect(next('2027-03-28T02:30:15')?.why).toMatch(/; runs at 03:30:15$/);
  const mayBe = (at: string) => scheduleBodySchema.safeParse({ at }).success;
  const wrong = ['2027-02-29T10:00', '2027-02-28T24:00', '2027-02-28', '2027-02-28T10:00:60', '07:60'];
  expect(wrong.filter(mayBe)).toEqual([]);
  expect(mayBe('2028-02-29T10:00')).toBe(true);
});

it('a zone has a name of the tz database', () => {
  const wrong = ['', 'Z', '+01:00', 'T12', 'PST', 'Mars/Olympus', '2026-12-01T00:00[Europe/Berlin]', 'x'.repeat(9_999)];
  expect(wrong.filter(isZone)).toEqual([]);
  const right = [...zones, 'Asia/Kolkata', 'US/Pacific', 'EST', 'Etc/GMT+5'];
  expect(right.filter((zone) => !isZone(zone))).toEqual([]);
});

describe('a due time by the sun', () => {
  it('is skipped at solar noon on a day without sunrise, with a sentence', () => {
    const tromso = sunAt('sunrise', 69.6, 18.9, 'Europe/Oslo', { except: ['2026-11-27'] });
    expect(tell(tromso, '2026-11-25T12:00Z', 4)).toEqual([
      ['2026-11-26T09:53', null, null],
      ['2026-11-27T10:12', null, 'excepted'],
      ['2026-11-28T10:32', 'no sunrise on this day at this place; skipped', 'no_sun_event'],
      ['2026-11-29T10:33', 'no sunrise on this day at this place; skipped', 'no_sun_event'],
    ]);
  });

  it('agrees with the algorithm of NOAA at 60 places from 80° S to 80° N on every day of a year, and there is one due time a day up to the poles', () => {
    const fromMs = Date.parse('2027-01-01T00:00Z');
    let edges = 0;
    let without = 0;
    let mostMinutes = 0;
    let mostDegrees = 0;
    const wrong: object[] = [];
    const places = Array.from({ length: 60 }, (_, place) => [
      Math.round(-800 + (1_600 * place) / 59) / 10,
      (((place * 1_375) % 3_600) - 1_800) / 10,
    ]);
    for (const [latitude = 0, longitude = 0] of [...places, ...poles]) {
      for (const sun of ['sunrise', 'sunset'] as const) {
        const dues = duesBetween(sunAt(sun, latitude, longitude, zoneOfPlace(longitude), year2027), 0, Infinity);
        expect(dues).toHaveLength(365);
        // The algorithm is not made for the poles.
        if (Math.abs(latitude) > 80) continue;
        for (const [day, { dueAtMs, skip }] of dues.entries()) {
          const { isEdge, atMs, heightAt } = noaaEvent(sun, fromMs + day * dayMs, latitude, longitude);
          if (isEdge) {
            edges++;
            // If the sun grazes the horizon, its height tells more than the time.
            if (skip === null) mostDegrees = Math.max(mostDegrees, Math.abs(heightAt(dueAtMs) + 0.833));
          } else if ((atMs === null) !== (skip === 'no_sun_event')) wrong.push({ latitude, day, skip });
          if (isEdge || atMs === null) without++;
          else mostMinutes = Math.max(mostMinutes, Math.abs(dueAtMs - atMs) / minuteMs);
        }
      }
    }
    expect(wrong).toEqual([]);
    // Half a minute is the rounding of due times.
    expect(mostMinutes).toBeLessThan(0.6);
    expect(mostDegrees).toBeLessThan(0.2);
    expect(edges).toBeLessThan(0.01 * 60 * 2 * 365);
    expect(without).toBeGreaterThan(3_000);
  });
});

it('the due times of a schedule are those of its dates, in one pass or in many, from wherever a pass begins', () => {
  const dayAfter = (first: string, days: number) => Temporal.PlainDate.from(first).add({ days }).toString();
  const tenths = (most: number) => fc.integer({ min: -10 * most, max: 10 * most }).map((value) => value / 10);
  const wallTimes = fc.nat(24 * 60 - 1).map((minutes) => new Date(minutes * minuteMs).toISOString().slice(11, 16));
  const sunTimes = fc.record<SunTime>({
    sun: fc.constantFrom('sunrise', 'sunset'),
    offsetMinutes: fc.integer({ min: -720, max: 720 }),
    place: fc.record({ latitude: tenths(90), longitude: tenths(180) }),
  });
  const timings = fc
    .record({
      at: fc.oneof(wallTimes, sunTimes),
      zone: fc.constantFrom(...zones),
      days: fc.uniqueArray(fc.constantFrom(...weekdays), { minLength: 1 }),
      first: fc.nat(12 * 365),
      length: fc.integer({ min: -1, max: 60 }),
      skipped: fc.array(fc.nat(60), { maxLength: 5 }),
    })
    .map(({ first, length, skipped, ...rest }) => {
      const from = dayAfter('2026-01-01', first);
      return { ...rest, from, until: dayAfter(from, length), except: skipped.map((day) => dayAfter(from, day)) };
    });
  const cuts = fc.array(fc.integer({ min: -3 * dayMs, max: 64 * dayMs }), { maxLength: 30 });
  fc.assert(
    fc.property(timings, fc.boolean(), cuts, (timing, isEndless, offsets) => {
      const { at, zone, days, from, until, except } = timing;
      const dates = Array.from({ length: 61 }, (_, day) => dayAfter(from, day)).filter((date) => {
        const { dayOfWeek } = Temporal.PlainDate.from(date);
        return date <= until && days.includes(weekdays[dayOfWeek - 1]!);
      });
      const nearZone = typeof at === 'string' ? zone : zoneOfPlace(at.place.longitude);
      const dues = duesBetween({ ...timing, zone: nearZone }, 0, Infinity);
      expect(dues.map(({ skip }) => skip === 'excepted')).toEqual(dates.map((date) => except.includes(date)));
      for (const [index, due] of typeof at === 'string' ? dues.entries() : []) {
        const expected = oracleDueAt(zone, Temporal.PlainDateTime.from(`${dates[index]}T${at as string}`));
        expect(due).toEqual(due.skip === null ? expected : { ...expected, why: null, skip: 'excepted' });
      }

      const start = Date.parse(from);
      const bounded = isEndless ? { ...timing, from: null, until: null } : timing;
      const passes = [-3 * dayMs, ...offsets.toSorted((a, b) => a - b), 64 * dayMs].map((offset) => start + offset);
      const inMany = passes.slice(1).flatMap((toMs, index) => duesBetween(bounded, passes[index]!, toMs));
      expect(inMany).toEqual(duesBetween(bounded, passes[0]!, passes.at(-1)!));
    }),
    { numRuns: 250, seed: fuzzSeed },
  );
});
