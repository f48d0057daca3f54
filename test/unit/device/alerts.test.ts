// What users are told of a device, on the core with a moved clock: each cause raised once and taken back, and no usual absence told.
// The real object, directory and inbox: test/worker/inbox/device-alerts.test.ts.
import { describe, expect, it } from 'vitest';
import { Random } from '../../../rig/inputs/random.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { alertsSlice } from '../../../src/domain/device/core/alerts.ts';
import { defaultNoticeRules, type NoticeRules } from '../../../src/domain/notices.ts';
import { dayMs, hourMs, minuteMs, secondMs, toIso } from '../../../src/domain/time.ts';
import { always, CoreDevice, down, once, up } from './core-device.ts';

const start = Date.UTC(2027, 5, 7, 10);
const member = 2;
const id = 'dev_00000001';
const person = { email: 'm@example.test', address: null };
const night = { from: '22:00', to: '06:00', zone: 'Europe/Berlin' };

function online(rules: Record<number, Partial<NoticeRules>> = {}, atMs = start): CoreDevice {
  const device = new CoreDevice(atMs);
  setRules(device, rules);
  device.connect();
  return device;
}

function setRules(device: CoreDevice, rules: Record<number, Partial<NoticeRules>>): void {
  const entries = Object.entries(rules).map(
    ([userId, own]) => [Number(userId), { ...defaultNoticeRules, ...own }] as const,
  );
  device.webhooks = { isComplete: true, list: [], rules: new Map(entries) };
  device.run({ kind: 'webhooks_changed' });
}

function share(device: CoreDevice): void {
  device.run({ kind: 'member_joined', userId: member, role: 'viewer', invitedBy: 1, ...person });
}

/** `1 +offline dev_00000001`: user 1 is told; `-`: it is taken back. */
const told = (device: CoreDevice) =>
  device.told.splice(0).map(({ userId, key, notice }) => `${userId} ${notice === null ? '-' : '+'}${key}`);

function confirm(device: CoreDevice, position: string): void {
  device.reply();
  device.report(position);
}

describe('a device that is away', () => {
  it('is told once to each reader, within 15 s after the time of the reader, until it is back', () => {
    const device = online({ [member]: { offlineAfterSeconds: 60 } });
    share(device);
    device.disconnect();
    const offlineAtMs = device.nowMs;
    device.wait(59 * secondMs);
    expect(told(device)).toEqual([]);
    device.wait(16 * secondMs);
    expect(device.told[0]?.notice).toMatchObject({
      cause: 'offline',
      deviceId: id,
      detail: { since: toIso(offlineAtMs) },
    });
    expect(told(device)).toEqual([`2 +offline ${id}`]);
    device.waitUntil(offlineAtMs + 10 * minuteMs - 1);
    expect(told(device)).toEqual([]);
    device.wait(15 * secondMs);
    device.sleep();
    device.wait(dayMs);
    expect(told(device)).toEqual([`1 +offline ${id}`]);
    device.connect();
    expect(told(device).sort()).toEqual([`1 -offline ${id}`, `2 -offline ${id}`]);
  });

  it('is told by the rules of the reader, once the directory has answered', () => {
    const device = online();
    device.webhooks = { isComplete: false, list: [] };
    device.disconnect();
    const asks = () => device.effects.filter(({ kind }) => kind === 'learn_webhooks').length;
    device.wait(hourMs);
    expect([told(device), asks() > 5]).toEqual([[], true]);
    setRules(device, { 1: { offlineAfterSeconds: 7200 } });
    const asked = asks();
    device.wait(hourMs - 1);
    expect([told(device), asks()]).toEqual([[], asked]);
    // Until the directory has answered with other rules, the former count.
    device.webhooks = { ...device.webhooks, isComplete: false };
    device.run({ kind: 'webhooks_changed' });
    expect(asks()).toBe(asked + 1);
    device.wait(15 * secondMs);
    // Other rules take back nothing.
    setRules(device, { 1: { offlineAfterSeconds: 86_400 } });
    device.wait(hourMs);
    expect(told(device)).toEqual([`1 +offline ${id}`]);
  });

  it('is not told while it is disabled, and costs no row while it is there', () => {
    const device = online();
    for (let report = 0; report < 300; report++) {
      device.report('up');
      device.wait(10 * minuteMs);
    }
    expect(device.state.alerts).toEqual(alertsSlice.initial);
    device.disconnect();
    device.setDisabled(true);
    device.wait(dayMs);
    expect(told(device)).toEqual([]);
  });

  it('is not told right after a restart of the broker, however long it said nothing before', () => {
    const device = online();
    device.wait(3 * hourMs);
    device.run({
      kind: 'connection_reported',
      report: { kind: 'doubted', beforeMs: device.nowMs, confirmWithinMs: 0 },
    });
    device.wait(5 * minuteMs - 1);
    expect(told(device)).toEqual([]);
    device.wait(15 * secondMs);
    expect(told(device)).toEqual([`1 +offline ${id}`]);
  });

  type Habit = (random: Random, longestMs: number) => [hereMs: number, awayMs: number];
  it.each<[string, Habit]>([
    ['blinks', (random, longestMs) => [random.next() * 4 * hourMs, random.next() * longestMs]],
    [
      'is off at night, and blinks',
      (random) => (random.isBelow(1 / 20) ? [hourMs, 8 * hourMs] : [hourMs, 20 * minuteMs * random.next()]),
    ],
    ['is switched off for half a day', (random) => [15 * hourMs, (12 + random.next()) * hourMs]],
  ])('is not told in a month, after two weeks, if it usually %s; and is if it stays away', (_, habit) => {
    const random = new Random(26);
    for (let index = 0; index < 20; index++) {
      const device = new CoreDevice(start + random.between(0, dayMs), {}, `dev_${index}`);
      const longestMs = random.between(1, 120) * minuteMs;
      while (device.nowMs < start + 45 * dayMs) {
        const [hereMs, awayMs] = habit(random, longestMs);
        device.connect();
        device.wait(minuteMs + hereMs);
        device.disconnect();
        device.wait(awayMs);
        if (device.nowMs < start + 15 * dayMs) told(device);
      }
      expect(told(device), `device ${index}`).toEqual([]);
      device.connect();
      device.disconnect();
      device.wait(4 * dayMs);
      expect(told(device)).toEqual([`1 +offline dev_${index}`]);
    }
  });
});

describe('other causes', () => {
  it('a lease that is not off 5 minutes after its end, until it is', () => {
    const device = online();
    device.request({ params: up, ttlSeconds: undefined, lease: { seconds: 60, then: down } });
    confirm(device, 'up');
    device.wait(6 * minuteMs - 1);
    expect(told(device)).toEqual([]);
    device.wait(15 * secondMs);
    expect(device.told[0]?.notice).toMatchObject({ cause: 'lease_not_off', again: down });
    expect(told(device)).toEqual([`1 +lease ${id}`]);
    device.wait(hourMs);
    expect(told(device)).toEqual([]);
    confirm(device, 'down');
    expect(told(device)).toEqual([`1 -lease ${id}`]);
  });

  it('a run that was missed, until a later one was not', () => {
    const device = online();
    share(device);
    const daily = { ...always, at: '12:00', zone: 'UTC' };
    device.schedule('noon', daily);
    device.schedule('other', once(start + hourMs), { command: down });
    device.disconnect();
    device.wait(dayMs / 2);
    const detail = { scheduleId: 'noon', outcome: 'missed', reason: 'device_offline' };
    // A viewer may not send the command again.
    expect(device.told.filter(({ key }) => key === `run ${id} noon`)).toMatchObject([
      { userId: 1, notice: { cause: 'run_failed', detail, again: up } },
      { userId: member, notice: { cause: 'run_failed', detail, again: null } },
    ]);
    const keys = [`offline ${id}`, `run ${id} noon`, `run ${id} other`];
    expect(told(device).sort()).toEqual([1, member].flatMap((userId) => keys.map((key) => `${userId} +${key}`)));
    device.connect();
    device.waitUntil(start + 26 * hourMs);
    confirm(device, 'up');
    expect(told(device).sort()).toEqual(
      [1, member].flatMap((userId) => [`${userId} -offline ${id}`, `${userId} -run ${id} noon`]),
    );
  });

  it('a hand in the hours of the reader, unless a command explains it', () => {
    const device = online({ 1: { handHours: night } }, Date.UTC(2027, 5, 7, 19, 50));
    const hold = { seconds: 600, then: down };
    device.report('up');
    device.report('down');
    expect(told(device)).toEqual([]);
    device.wait(10 * minuteMs);
    device.report('up');
    const { atMs, detail } = device.told[0]?.notice ?? {};
    expect([atMs, detail]).toEqual([device.nowMs, { position: 'up' }]);
    device.wait(minuteMs);
    device.report('down');
    expect(told(device)).toEqual([`1 +hand ${id}`, `1 +hand ${id}`]);
    device.request({ params: { action: 'trigger' }, ttlSeconds: undefined });
    device.wait(30 * secondMs);
    device.report('up');
    device.wait(hourMs);
    device.request({ params: up, ttlSeconds: undefined, lease: hold });
    confirm(device, 'up');
    device.wait(11 * minuteMs);
    confirm(device, 'down');
    expect(told(device)).toEqual([]);
    // The rules come a moment after the movement.
    device.webhooks = { isComplete: false, list: [] };
    device.wait(hourMs);
    device.report('up');
    expect(told(device)).toEqual([]);
    setRules(device, { 1: { handHours: night } });
    expect(told(device)).toEqual([`1 +hand ${id}`]);
  });
});

describe('a notice', () => {
  it('is told each minute until the inbox has it, over losses of the object', () => {
    const device = online();
    device.hasInbox = false;
    device.disconnect();
    device.wait(10 * minuteMs + 15 * secondMs);
    device.wait(hourMs);
    const tries = told(device);
    expect([new Set(tries), tries.length]).toEqual([new Set([`1 +offline ${id}`]), 61]);
    device.sleep();
    device.hasInbox = true;
    device.wait(hourMs);
    device.wait(dayMs);
    expect(told(device)).toEqual([`1 +offline ${id}`]);
  });

  it.each<[string, (device: CoreDevice) => unknown, string[]]>([
    [
      'a member who leaves',
      (device) => device.run({ kind: 'member_removed', actor: inPerson(member), userId: member, ...person }),
      ['2'],
    ],
    ['all of a deleted device', (device) => device.run({ kind: 'deleted', actor: inPerson(1) }), ['1', '2']],
    ['all of a disabled device', (device) => device.setDisabled(true), ['1', '2']],
  ])('is taken back from %s', (_, deed, users) => {
    const device = online();
    share(device);
    device.disconnect();
    device.wait(hourMs);
    expect(told(device)).toHaveLength(2);
    deed(device);
    expect(told(device).sort()).toEqual(users.map((userId) => `${userId} -offline ${id}`));
  });
});
