// When a device asks D1 for its record, and what ends a device that has none: two definite answers, hours apart.
import { describe, expect, it } from 'vitest';
import { CoreDevice } from './core-device.ts';

const startMs = 1_790_000_000_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

function answer(device: CoreDevice, isThere: boolean): void {
  device.run({ kind: 'record_checked', isThere });
}

/** How often D1 was asked since the last time. */
function countAsked(device: CoreDevice): number {
  const asked = device.effects.filter(({ kind }) => kind === 'check_record').length;
  device.effects.splice(0);
  return asked;
}

/** Fires alarms at their times until D1 is asked, or there is no alarm any more. */
function waitForQuestion(device: CoreDevice): void {
  for (;;) {
    const { setAtMs } = device.state.alarm;
    if (setAtMs === null) return;
    device.nowMs = Math.max(device.nowMs, setAtMs);
    const { length } = device.effects;
    device.fireAlarm();
    if (device.effects.slice(length).some(({ kind }) => kind === 'check_record')) return;
  }
}

/** A device that came online a day after its activation. */
function returned(settings: { reportsConnections?: boolean } = {}): CoreDevice {
  const device = new CoreDevice(startMs, settings);
  device.nowMs += dayMs;
  device.connect();
  return device;
}

const sleepsOrNot = [
  ['awake', () => undefined],
  ['asleep in between', (device: CoreDevice) => device.sleep()],
] as const;

describe('a device asks D1 for its record', () => {
  it('not on the day of its activation', () => {
    const device = new CoreDevice(startMs);
    device.nowMs += dayMs - 1;
    device.connect();
    device.fireAlarm();
    device.nowMs += 2 * hourMs;
    device.fireAlarm();
    expect(countAsked(device)).toBe(0);
  });

  it.each(sleepsOrNot)('within an hour after it came online, and then not for a day: %s', (_, pause) => {
    const device = returned();
    expect(countAsked(device)).toBe(0);
    pause(device);
    waitForQuestion(device);
    expect(device.nowMs - startMs - dayMs).toBeLessThanOrEqual(hourMs);
    // Alarms fire at whole milliseconds: a time between two would not be reached.
    expect(device.state.recordCheck.dueAtMs! % 1).toBe(0);
    expect(countAsked(device)).toBe(1);
    answer(device, true);
    pause(device);
    device.connect();
    device.fireAlarm();
    device.nowMs += dayMs - 1;
    device.connect();
    device.fireAlarm();
    expect(countAsked(device)).toBe(0);
    device.nowMs += 1;
    device.connect();
    pause(device);
    waitForQuestion(device);
    expect(countAsked(device)).toBe(1);
  });

  it('after a login at a broker that reports no connections', () => {
    const device = new CoreDevice(startMs, { reportsConnections: false });
    device.nowMs += dayMs;
    const { productKey } = device;
    const login = { productKey, isClientIdRight: true, address: null, relayShard: undefined };
    device.run({ kind: 'login_attempted', ...login, matchedDigest: 'password' });
    waitForQuestion(device);
    expect(countAsked(device)).toBe(1);
    expect(device.nowMs - startMs - dayMs).toBeLessThanOrEqual(hourMs);
  });

  it.each(sleepsOrNot)('after it went offline, where no login is seen: %s', (_, pause) => {
    const device = new CoreDevice(startMs, { reportsConnections: false, asksAtLogin: false });
    device.nowMs += dayMs;
    device.receive('thing/event/property/post', { params: { position: 'up' } });
    pause(device);
    waitForQuestion(device);
    expect(device.status().online).toBe(false);
    expect(countAsked(device)).toBe(1);
    expect(device.nowMs - startMs - dayMs).toBeLessThanOrEqual(2 * hourMs);
  });

  it('again after an hour where there was no definite answer, and never ends without one', () => {
    const device = returned();
    waitForQuestion(device);
    for (let hours = 0; hours < 48; hours++) {
      const beforeMs = device.nowMs;
      waitForQuestion(device);
      expect(device.nowMs - beforeMs).toBe(hourMs);
    }
    expect(countAsked(device)).toBe(49);
    expect(device.status().deviceId, 'it is there').toBe(device.deviceId);
  });

  it('some time later, also when it slept and another alarm woke it before', () => {
    const device = returned();
    device.sleep();
    device.nowMs += 1;
    device.fireAlarm();
    expect(countAsked(device)).toBe(0);
    waitForQuestion(device);
    expect(countAsked(device)).toBe(1);
  });
});

describe('a device that D1 has no record of', () => {
  it.each(sleepsOrNot)('ends with the second answer, six hours after the first: %s', (_, pause) => {
    const device = returned();
    waitForQuestion(device);
    answer(device, false);
    pause(device);
    const firstMs = device.nowMs;
    countAsked(device);
    waitForQuestion(device);
    expect(device.nowMs - firstMs).toBe(6 * hourMs);
    expect(countAsked(device)).toBe(1);
    answer(device, false);
    expect(() => device.state).toThrow('the device is deleted');
    expect(device.effects.map(({ kind }) => kind)).toEqual(['tell_readers', 'end_relay_sessions', 'delete_at_broker']);
  });

  it('stays while answers come that are not hours apart', () => {
    const device = returned();
    waitForQuestion(device);
    for (let count = 0; count < 5; count++) {
      answer(device, false);
      device.nowMs += hourMs;
    }
    expect(device.status().online).toBe(true);
    answer(device, false);
    device.nowMs += hourMs;
    answer(device, false);
    expect(() => device.state).toThrow('the device is deleted');
  });

  it.each(sleepsOrNot)('stays when the record is there again in between: %s', (_, pause) => {
    const device = returned();
    waitForQuestion(device);
    answer(device, false);
    pause(device);
    device.nowMs += hourMs;
    answer(device, true);
    pause(device);
    device.nowMs += 2 * dayMs;
    device.connect();
    waitForQuestion(device);
    answer(device, false);
    expect(device.status().online).toBe(true);
  });
});

function compare(device: CoreDevice, versionInD1: number): number[] {
  device.effects.splice(0);
  // Writes of a projection keep a distance.
  device.nowMs += 60_000;
  device.run({ kind: 'record_compared', projectionVersion: versionInD1, membersVersion: 0 });
  return device.writes().map(({ projection }) => projection.version);
}

it('a device that is compared with its record writes nothing where D1 has its projection', () => {
  const device = returned();
  const before = device.state;
  expect(compare(device, before.presence.projectionVersion)).toEqual([]);
  expect(device.state).toBe(before);
});
