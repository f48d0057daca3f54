// Usage of a device on the core with a moved clock: causes, timelines, deaths without a word, ends of days and limits. Random histories:
// usage-histories.test.ts. The real object and D1: test/worker/devices/usage.test.ts.
import { describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { dateOf, dayOf } from '../../../src/domain/device/times/calendar.ts';
import { maxChanges } from '../../../src/domain/device/usage/usage.ts';
import { rangeOf } from '../../../src/domain/device/usage/views.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../../src/domain/time.ts';
import type { UsageQuery } from '../../../src/protocol/http/usage.ts';
import { CoreDevice, down, onlineDevice, once, up } from '../device/core-device.ts';
import { read, setZone } from './read-usage.ts';

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

it('another zone counts from the next day on, which is longer or shorter', () => {
  const device = new CoreDevice(noon);
  setZone(device, 'Europe/Berlin');
  device.connect();
  device.report('up');
  setZone(device, 'America/New_York');
  device.waitUntil(noon + 3 * dayMs);
  const { list } = read(device, { from: '2027-06-07' }, 'America/New_York');
  expect(list.map(({ from, zone, seconds }) => [from, zone, seconds / 3600])).toEqual([
    ['2027-06-07', 'Europe/Berlin', 24],
    ['2027-06-08', 'America/New_York', 30],
    ['2027-06-09', 'America/New_York', 24],
    ['2027-06-10', 'America/New_York', 8],
  ]);
});
