// Usage of a device on the core: random histories against a slow recount with another Temporal, in zones whose days have 23 to 25 hours
// and more, with changes of the zone and lost processes.
import { Temporal } from '@js-temporal/polyfill';
import fc from 'fast-check';
import { describe, expect, inject, it } from 'vitest';
import { hourMs, minuteMs, secondMs } from '../../../src/domain/time.ts';
import { CoreDevice } from '../device/core-device.ts';
import { read, setZone } from './read-usage.ts';

type Value = 'on' | 'off' | 'unknown';

/** With a change of the clock or the calendar days after. */
const places = {
  'Europe/Berlin': ['2027-03-26', '2027-10-29'],
  'America/New_York': ['2027-03-12', '2027-11-05'],
  // By half an hour.
  'Australia/Lord_Howe': ['2027-04-02', '2027-10-01'],
  // Its clock changes at midnight.
  'Africa/Cairo': ['2027-04-28', '2027-10-27'],
  // It left out the 30th.
  'Pacific/Apia': ['2011-12-28'],
  UTC: ['2027-03-26'],
} as const;

const startOf = (date: string, zone: string) => Temporal.PlainDate.from(date).toZonedDateTime(zone).epochMilliseconds;

/** What is so, beside the device: its time in pieces, and what pressed it. */
class Truth {
  readonly pieces: { fromMs: number; toMs: number; value: Value }[] = [];
  readonly hands: number[] = [];
  readonly persons: number[] = [];
  isOnline = false;
  isDisabled = false;
  position: string | null = null;
  fromMs: number;

  constructor(fromMs: number) {
    this.fromMs = fromMs;
  }

  get value(): Value {
    if (!this.isOnline || this.isDisabled || this.position === null) return 'unknown';
    return this.position === 'up' ? 'on' : 'off';
  }

  reach(toMs: number, value: Value = this.value): void {
    this.pieces.push({ fromMs: this.fromMs, toMs, value });
    this.fromMs = toMs;
  }

  secondsOf(value: Value, fromMs: number, toMs: number): number {
    const own = this.pieces.filter((piece) => piece.value === value);
    const inside = own.map((piece) => Math.max(0, Math.min(piece.toMs, toMs) - Math.max(piece.fromMs, fromMs)));
    return inside.reduce((sum, ms) => sum + ms, 0) / secondMs;
  }
}

const steps = fc.array(
  fc.record({
    does: fc.constantFrom(
      'report',
      'report',
      'report',
      'press',
      'come',
      'go',
      'go late',
      'disable',
      'lose',
      'sleep',
      'zone',
    ),
    waitSeconds: fc.oneof(fc.integer({ min: 300, max: 3_600 }), fc.integer({ min: 3_600, max: 20 * 3_600 })),
    position: fc.constantFrom('up', 'middle', 'down'),
    // Also over the date line.
    zone: fc.constantFrom('Pacific/Kiritimati', 'Pacific/Pago_Pago', 'Asia/Kathmandu', ...Object.keys(places)),
  }),
  { minLength: 5, maxLength: 40 },
);
type Step = typeof steps extends fc.Arbitrary<(infer One)[]> ? One : never;

function take(device: CoreDevice, truth: Truth, step: Step): void {
  const { does, waitSeconds, position } = step;
  const toMs = device.nowMs + waitSeconds * secondMs;
  if (does === 'lose') {
    const isNoticed = (device.state.alarm.setAtMs ?? Infinity) + 2 * minuteMs < toMs;
    device.sleep();
    device.nowMs = toMs;
    truth.reach(toMs, isNoticed ? 'unknown' : truth.value);
    device.fireAlarm();
  } else device.waitUntil(toMs);
  const isLate = does === 'go late' && truth.isOnline && toMs - 200 * secondMs >= device.state.usage.today.fromMs;
  truth.reach(isLate ? toMs - 200 * secondMs : toMs);
  if (does === 'sleep') device.sleep();
  if (does === 'zone') setZone(device, step.zone);
  if (does === 'come' && !truth.isOnline) {
    device.connect();
    truth.isOnline = true;
  }
  if ((does === 'go' || isLate) && truth.isOnline) {
    const end = { sessionStartedAtMs: null, endedAtMs: isLate ? toMs - 200 * secondMs : toMs, reason: 'tcp_closed' };
    device.run({ kind: 'connection_reported', report: { kind: 'disconnected', ...end } });
    truth.isOnline = false;
    if (isLate) truth.reach(toMs);
  }
  if (does === 'disable') {
    truth.isDisabled = !truth.isDisabled;
    device.setDisabled(truth.isDisabled);
    // Disabling ends the session at the broker.
    if (truth.isDisabled) device.disconnect();
    if (truth.isDisabled) truth.isOnline = false;
  }
  if (!truth.isOnline || truth.isDisabled) return;
  if (does === 'press') {
    device.request({ params: { action: 'toggle', position }, ttlSeconds: undefined });
    device.reply();
    truth.persons.push(device.nowMs);
  }
  const shown = does === 'press' || does === 'report' ? position : (truth.position ?? position);
  if (does === 'report' && truth.position !== null && truth.position !== shown) truth.hands.push(device.nowMs);
  device.report(shown);
  truth.position = shown;
}

const runs = { numRuns: 300, seed: inject('fuzzSeed') };

describe('random histories', () => {
  it.each(Object.entries(places).flatMap(([zone, dates]) => dates.map((date) => ({ zone, date }))))(
    'in $zone from $date on are counted as a slow recount counts them',
    ({ zone, date }) => {
      const kept = steps.map((all) => all.filter(({ does }) => does !== 'zone' && does !== 'lose'));
      fc.assert(
        fc.property(kept, (all) => {
          const device = new CoreDevice(startOf(date, zone) + 5 * hourMs);
          setZone(device, zone);
          const truth = new Truth(device.nowMs);
          for (const step of all) take(device, truth, step);
          const last = Temporal.Instant.fromEpochMilliseconds(device.nowMs).toZonedDateTimeISO(zone).toPlainDate();
          const { list } = read(device, { from: date }, zone);
          expect(list.at(-1)?.to).toBe(last.toString());
          for (const day of list) {
            const next = Temporal.PlainDate.from(day.from).add({ days: 1 }).toString();
            const [fromMs, toMs] = [startOf(day.from, zone), Math.min(startOf(next, zone), device.nowMs)];
            const within = (times: number[]) =>
              times.filter((atMs) => atMs >= fromMs && atMs < startOf(next, zone)).length;
            expect(day).toMatchObject({
              seconds: (toMs - fromMs) / secondMs,
              onSeconds: truth.secondsOf('on', fromMs, toMs),
              offSeconds: truth.secondsOf('off', fromMs, toMs),
              presses: { person: within(truth.persons), hand: within(truth.hands) },
            });
            expect(day.onSeconds + day.offSeconds + day.unknownSeconds).toBe(day.seconds);
          }
        }),
        runs,
      );
    },
  );
});

it('in any zones, and if the process is lost, counts nothing that was not known, and each day adds up and follows on the day before', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const device = new CoreDevice(startOf('2027-03-26', 'UTC') + 5 * hourMs);
      const truth = new Truth(device.nowMs);
      for (const step of all) take(device, truth, step);
      const { list } = read(device, { from: '2027-03-24' });
      const sum = (name: 'onSeconds' | 'offSeconds' | 'unknownSeconds') =>
        list.reduce((total, day) => total + day[name], 0);
      const isLost = all.some(({ does }) => does === 'lose');
      for (const [name, value] of [
        ['onSeconds', 'on'],
        ['offSeconds', 'off'],
      ] as const) {
        const known = truth.secondsOf(value, 0, device.nowMs);
        if (isLost) expect(sum(name)).toBeLessThanOrEqual(known);
        else expect(sum(name)).toBe(known);
      }
      for (const day of list) {
        expect(day.onSeconds + day.offSeconds + day.unknownSeconds).toBe(day.seconds);
        expect(Math.min(day.onSeconds, day.offSeconds, day.unknownSeconds)).toBeGreaterThanOrEqual(0);
      }
      expect(list.reduce((total, { presses }) => total + presses.person, 0)).toBe(truth.persons.length);
      expect(device.days.map(({ day }) => day)).toEqual([...new Set(device.days.map(({ day }) => day))].sort((a, b) => a - b)); // prettier-ignore
      for (const [index, day] of device.days.entries()) {
        const next = device.days[index + 1];
        if (next?.day === day.day + 1) expect(next.fromMs).toBe(day.toMs);
        expect(day.toMs).toBeLessThanOrEqual(next?.fromMs ?? Infinity);
      }
    }),
    { ...runs, numRuns: 2_000 },
  );
});
