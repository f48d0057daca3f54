// Usage of a device on the core with a moved clock: random histories against a slow recount with another Temporal, in zones whose days
// have 23 to 25 hours and more; and single causes, limits and ends. The real object and D1: test/worker/devices/usage.test.ts.
import { Temporal } from '@js-temporal/polyfill';
import fc from 'fast-check';
import { describe, expect, inject, it } from 'vitest';
import { dateOf, dayOf } from '../../../src/domain/device/times/calendar.ts';
import { maxChanges } from '../../../src/domain/device/usage/usage.ts';
import { rangeOf, viewUsage } from '../../../src/domain/device/usage/views.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { defaultNoticeRules } from '../../../src/domain/notices.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../../src/domain/time.ts';
import type { UsageQuery } from '../../../src/protocol/http/usage.ts';
import { CoreDevice, down, onlineDevice, once, up } from '../device/core-device.ts';

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

function setZone(device: CoreDevice, zone: string): void {
  device.webhooks = { isComplete: true, list: [], rules: new Map([[1, { ...defaultNoticeRules, zone }]]) };
  device.run({ kind: 'webhooks_changed' });
}

function read(device: CoreDevice, query: Partial<UsageQuery> = {}, zone = 'UTC') {
  const daysIn = (first: number, last: number) => device.days.filter(({ day }) => day >= first && day <= last);
  return unwrap(viewUsage(device.state, { step: 'day', ...query }, daysIn, zone, device.nowMs));
}

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

const noon = Date.UTC(2027, 5, 7, 12);
const person = inPerson(1);
const today = (device: CoreDevice) => read(device, { from: dateOf(Math.floor(device.nowMs / dayMs)) });
const hours = (list: { onSeconds: number; offSeconds: number; unknownSeconds: number }[]) =>
  list.map((day) => [day.onSeconds / 3600, day.offSeconds / 3600, day.unknownSeconds / 3600]);

function shown(position = 'middle'): CoreDevice {
  const device = onlineDevice(noon);
  device.report(position);
  device.wait(hourMs);
  return device;
}

describe('what is counted', () => {
  it('is each command once, when it is known to have happened, by its cause', () => {
    const device = shown();
    const given = (params: typeof up | typeof down, actor = person, via?: 'scene') => {
      const request = { params, ttlSeconds: undefined, ...(via && { via }) };
      device.request(request, actor);
      device.reply();
      device.report(params.position);
      device.reply();
      device.wait(minuteMs);
    };
    given(up);
    given(down, { ...person, scopes: ['control'], keyId: 'ak_1' });
    given(up, person, 'scene');
    device.schedule('s1', once(device.nowMs + minuteMs), { command: down });
    device.isAuthorValid = true;
    device.wait(minuteMs);
    device.reply();
    device.report('down');
    device.wait(hourMs);
    const [{ presses, failures } = { presses: {}, failures: -1 }] = today(device).list;
    expect(presses).toEqual({ person: 1, key: 1, schedule: 1, scene: 1, hand: 0 });
    expect(failures).toBe(0);
  });

  it('is a failure only if it certainly did not happen, and nothing if nobody knows', () => {
    const device = shown();
    const failures = () => today(device).list[0]?.failures;
    device.request({ params: up, ttlSeconds: undefined });
    device.wait(minuteMs);
    expect(failures()).toBe(0);
    device.request({ params: up, ttlSeconds: undefined });
    device.reply(500);
    expect(failures()).toBe(1);
    device.hasBroker = false;
    device.request({ params: up, ttlSeconds: undefined });
    expect(failures()).toBe(2);
    device.hasBroker = true;
    device.disconnect();
    device.request({ params: up, ttlSeconds: 60 });
    device.wait(2 * minuteMs);
    expect(failures()).toBe(3);
    expect(today(device).list[0]?.presses).toMatchObject({ person: 0, hand: 0 });
  });

  it('is a hand for a move that no command asked for, but not the first report', () => {
    const device = shown('up');
    device.report('down');
    device.report('up');
    expect(today(device).list[0]?.presses.hand).toBe(2);
  });

  it('is what the witness saw, if it sees more than presses', () => {
    const device = shown('up');
    const by = { property: 'power', operator: '>', value: 20 } as const;
    const settings = { expect: 'on', by, withinSeconds: 30, then: 'nothing' } as const;
    device.run({ kind: 'witness_set', actor: person, settings, linkId: null });
    device.wait(hourMs);
    device.receive('thing/event/property/post', { params: { power: 3 } });
    device.wait(hourMs);
    device.report('middle');
    device.receive('thing/event/property/post', { params: { power: 30 } });
    device.wait(2 * hourMs);
    expect(hours(today(device).list)).toEqual([[3, 1, 13]]);
  });
});

describe('the timeline of a day', () => {
  it('has its changes from its beginning on, and says if it is cut', () => {
    const device = shown('up');
    expect(today(device).timeline).toEqual({ changes: [[12 * 3600, 'on']], isCut: false });
    device.wait(12 * hourMs);
    device.report('down');
    expect(today(device).timeline).toEqual({ changes: [[0, 'on'], [3600, 'off']], isCut: false }); // prettier-ignore
    for (let at = 0; at < maxChanges; at++) {
      device.wait(10 * secondMs);
      device.report(at % 2 === 0 ? 'up' : 'down');
    }
    const { timeline, list } = today(device);
    expect(timeline).toMatchObject({ changes: { length: maxChanges }, isCut: true });
    expect((list[0]?.onSeconds ?? 0) + (list[0]?.offSeconds ?? 0)).toBe(3600 + maxChanges * 10);
    expect(read(device, { from: '2027-06-07', to: '2027-06-08' }).timeline).toBeUndefined();
  });
});

describe('a device that is gone without a word', () => {
  it('is known until its last sign of life of the day, however late it is noticed', () => {
    const device = shown('up');
    device.waitUntil(noon + 26 * hourMs);
    // Its 24 hours of inactivity ended an hour after noon. The day before had ended: it stays.
    expect(hours(read(device, { from: '2027-06-07' }).list)).toEqual([[12, 0, 12], [0, 0, 14]]); // prettier-ignore
  });

  it('is not known while nothing ran it, and a lost socket stays unknown until it is back', () => {
    const device = new CoreDevice(noon);
    const login = { productKey: device.productKey, isClientIdRight: true, matchedDigest: 'password', address: null };
    device.run({ kind: 'direct_connected', ...login, takenOver: null });
    device.report('up');
    const alarmAtMs = device.state.alarm.setAtMs ?? 0;
    device.sleep();
    device.nowMs += 5 * hourMs;
    device.run({ kind: 'direct_checked', open: null });
    device.run({ kind: 'alarm_fired', scheduledAtMs: alarmAtMs });
    device.wait(20 * secondMs);
    expect(today(device).list[0]?.onSeconds).toBe(0);
    device.run({ kind: 'direct_connected', ...login, takenOver: null });
    device.wait(10 * secondMs);
    expect(today(device).list[0]?.onSeconds).toBe(10);
  });

  it('at a deployment is known all the time, if it is back soon', () => {
    const device = new CoreDevice(noon);
    const login = { productKey: device.productKey, isClientIdRight: true, matchedDigest: 'password', address: null };
    device.run({ kind: 'direct_connected', ...login, takenOver: null });
    device.report('up');
    device.nowMs += minuteMs;
    device.sleep();
    device.run({ kind: 'direct_checked', open: null });
    device.nowMs += 5 * secondMs;
    device.run({ kind: 'direct_connected', ...login, takenOver: null });
    expect(today(device).list[0]?.onSeconds).toBe(65);
  });
});

describe('a day that ends', () => {
  it('costs a row and an alarm; a device that is away all day costs none', () => {
    const device = shown('up');
    device.disconnect();
    device.waitUntil(Date.UTC(2027, 5, 8) - 1);
    expect(device.days).toEqual([]);
    device.waitUntil(Date.UTC(2027, 5, 8, 3));
    expect(device.days).toHaveLength(1);
    device.waitUntil(noon + 3 * dayMs);
    expect(device.days).toHaveLength(1);
    const { state } = device;
    device.wait(100 * dayMs);
    device.run({ kind: 'webhooks_changed' });
    expect(device.state).toBe(state);
    const { list } = read(device, { from: '2027-06-07' });
    expect(list).toHaveLength(104);
    expect(list.slice(1, -1).every((day) => day.unknownSeconds === 86_400)).toBe(true);
  });

  it('is told with a projection until D1 has it, together with later ones', () => {
    const device = shown('up');
    device.projectionOutcome = undefined;
    const last = () => device.writes().at(-1)?.projection;
    device.waitUntil(Date.UTC(2027, 5, 8, 4));
    expect(last()?.usage).toMatchObject([{ day: dayOf('2027-06-07'), onMs: 12 * hourMs, changes: [] }]);
    device.endProjection(last()?.version ?? 0, 'failed');
    device.report('up');
    device.waitUntil(Date.UTC(2027, 5, 9, 4));
    device.sleep();
    device.fireAlarm();
    device.waitUntil(Date.UTC(2027, 5, 9, 5));
    expect(last()?.usage?.map(({ day }) => dateOf(day))).toEqual(['2027-06-07', '2027-06-08']);
    device.endProjection(last()?.version ?? 0, 'written');
    expect(device.state.usage.untold).toEqual([]);
    const { version } = last() ?? {};
    device.wait(hourMs);
    expect(last()?.version).toBe(version);
  });

  it('is forgotten with all others when the device has another owner', () => {
    const device = shown('up');
    device.waitUntil(Date.UTC(2027, 5, 8, 5));
    device.run({ kind: 'released', actor: person, defaultName: 'A switch' });
    expect(device.state.usage).toMatchObject({ value: 'unknown', untold: [], today: { changes: [] } });
  });
});

it('a range that is wrong, or longer than what is kept, is refused', () => {
  const day = dayOf('2027-06-07');
  const problems = [{ from: '2027-06-08' }, { from: '2027-06-05', to: '2027-06-04' }, { from: '2026-01-01' }];
  for (const query of problems) expect(rangeOf(query, day)).toMatchObject({ ok: false });
  expect(rangeOf({ from: dateOf(day - 399) }, day)).toMatchObject({ value: { first: day - 399, last: day } });
  const problem = 'at most 400 days at once with this step';
  expect(rangeOf({ from: dateOf(day - 400) }, day)).toMatchObject({ refusal: { problem } });
  expect(rangeOf({ to: '2099-01-01' }, day)).toMatchObject({ value: { first: day - 29, last: day } });
});

it('weeks begin on Monday, and months on their first day', () => {
  const device = shown('up');
  device.waitUntil(Date.UTC(2027, 6, 2));
  const step = (name: UsageQuery['step']) => read(device, { from: '2027-06-09', step: name }).list;
  expect(step('week').map(({ from, to }) => `${from} ${to}`)).toEqual([
    '2027-06-09 2027-06-13',
    '2027-06-14 2027-06-20',
    '2027-06-21 2027-06-27',
    '2027-06-28 2027-07-02',
  ]);
  expect(step('month').map(({ from, seconds }) => `${from} ${seconds / 86_400}`)).toEqual([
    '2027-06-09 22',
    '2027-07-01 1',
  ]);
});
