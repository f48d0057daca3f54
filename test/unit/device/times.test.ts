// Due times on the core with a moved clock: each ends in exactly one run, nothing is pressed beyond its grace, and the end of a
// lease is pursued. The real object, its alarm and HTTP: test/worker/devices/schedules.test.ts.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import type { Timing } from '../../../src/domain/device/times/calendar.ts';
import { runDue } from '../../../src/domain/device/times/due.ts';
import { viewLease } from '../../../src/domain/device/times/lease.ts';
import { listNext, oneShots, recurring, type ScheduleDraft } from '../../../src/domain/device/times/schedules.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { CoreDevice } from './core-device.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
/** A Monday, 0:00 in Berlin, in summer. */
const start = Date.UTC(2027, 5, 6, 22);
const up = { action: 'toggle', position: 'up' } as const;
const down = { action: 'toggle', position: 'down' } as const;
const pulse = { action: 'pulse' } as const;
const iso = (timeMs: number) => new Date(timeMs).toISOString();

const at = (time: string, more: object = {}): Timing => ({
  at: time,
  days: null,
  zone: 'Europe/Berlin',
  from: null,
  until: null,
  except: [],
  ...more,
});
const once = (atMs: number): Timing => at(iso(atMs), { zone: null });

function draft(timing: Timing, more: Partial<ScheduleDraft> = {}): ScheduleDraft {
  const plain = { name: 'S', command: up, jitterSeconds: 0, graceSeconds: 60, enabled: true };
  return { ...plain, ...timing, ...more };
}

function put(
  device: CoreDevice,
  scheduleId: string,
  timing: Timing,
  more: Partial<ScheduleDraft> = {},
  actor = inPerson(1),
) {
  const event = { kind: 'schedule_put', actor, scheduleId, draft: draft(timing, more), isNew: true } as const;
  return device.run(event);
}

function online(): CoreDevice {
  const device = new CoreDevice(start);
  device.connect();
  return device;
}

/** Moves the clock and fires each alarm at its time. */
function wait(device: CoreDevice, ms: number): void {
  const endMs = device.nowMs + ms;
  for (let fired = 0; fired < 10_000; fired++) {
    const { setAtMs } = device.state.alarm;
    if (setAtMs === null || setAtMs > endMs) break;
    device.nowMs = Math.max(device.nowMs, setAtMs);
    device.fireAlarm();
  }
  device.nowMs = endMs;
}

const pressed = ({ published }: CoreDevice) =>
  published
    .filter(({ topic }) => topic.endsWith(topicActions.propertySet))
    .map(({ payload }) => JSON.parse(payload) as { id: string; params: Record<string, unknown> });

function reply(device: CoreDevice, code = 200): void {
  const { id } = pressed(device).at(-1) ?? { id: '' };
  device.receive(topicActions.propertyPost, { method: 'thing.service.property.set_reply', id, code });
}
const report = (device: CoreDevice, position: string) =>
  device.receive(topicActions.propertyPost, { params: { position } });

const share = (device: CoreDevice, userId: number, role: 'operator' | 'viewer') =>
  device.run({ kind: 'member_joined', userId, role, invitedBy: 1, email: 'b@example.test', address: null });

describe('a schedule', () => {
  it('presses at its time, each day, and each run ends as its command does', () => {
    const device = online();
    put(device, 's', at('07:30'));
    wait(device, 7 * hour + 30 * minute - 1);
    expect(pressed(device)).toEqual([]);
    wait(device, 1);
    expect(pressed(device)).toMatchObject([{ params: up }]);
    expect(device.commands()[0]).toMatchObject({ scheduleId: 's', givenBy: { userId: 1, withKey: false } });
    reply(device);
    report(device, 'up');
    wait(device, day);
    reply(device);
    wait(device, day - hour);
    report(device, 'middle');
    wait(device, hour + 2 * minute);
    const dueAtMs = start + 7.5 * hour;
    expect(device.runs).toMatchObject([
      { scheduleId: 's', dueAtMs, outcome: 'confirmed', commandId: device.commands()[2]?.commandId },
      { dueAtMs: dueAtMs + day, outcome: 'acknowledged' },
      { dueAtMs: dueAtMs + 2 * day, outcome: 'published', reason: null },
    ]);
  });

  it.each([
    ['failed with a code', pulse, (device: CoreDevice) => reply(device, 500), 'refused', 'device replied 500'],
    [
      'replaced by a newer command',
      up,
      (device: CoreDevice) => device.request({ params: down, ttlSeconds: undefined }),
      'skipped',
      'replaced',
    ],
    ['not answered', pulse, () => undefined, 'published', null],
  ] as const)('ends a run whose command was %s', (_, command, then, outcome, reason) => {
    const device = online();
    put(device, 's', once(start + hour), { command, graceSeconds: 10 });
    wait(device, hour);
    if (outcome === 'skipped') device.disconnect();
    then(device);
    wait(device, minute);
    expect(device.runs).toMatchObject([{ outcome, reason }]);
  });

  it('lets a position wait within its grace for a device that is away, and nothing else', () => {
    const device = new CoreDevice(start);
    put(device, 'momentary', once(start + hour), { command: pulse, graceSeconds: 10 });
    put(device, 'misses', once(start + 2 * hour), { graceSeconds: 60 });
    put(device, 'waits', once(start + 3 * hour), { graceSeconds: 600 });
    wait(device, 3 * hour + 5 * minute);
    expect(pressed(device)).toHaveLength(2);
    device.connect();
    reply(device);
    report(device, 'up');
    expect(pressed(device)).toHaveLength(3);
    expect(device.runs).toMatchObject([
      { scheduleId: 'momentary', outcome: 'missed', reason: 'device_offline' },
      { scheduleId: 'misses', outcome: 'missed', reason: 'device_offline' },
      { scheduleId: 'waits', outcome: 'confirmed' },
    ]);
  });

  it('is tried again within its grace while no broker takes it', () => {
    const device = online();
    put(device, 'comes', once(start + hour));
    put(device, 'fails', once(start + 2 * hour));
    device.hasBroker = false;
    wait(device, hour);
    device.hasBroker = true;
    wait(device, 15 * second);
    expect(pressed(device)).toHaveLength(1);
    reply(device);
    report(device, 'up');
    device.hasBroker = false;
    wait(device, 2 * hour);
    expect(device.runs).toMatchObject([{ outcome: 'confirmed' }, { outcome: 'missed', reason: 'service_down' }]);
  });

  it('is sent again if the object is lost after it was written, if that changes nothing', () => {
    const device = online();
    put(device, 'position', once(start + hour));
    put(device, 'momentary', once(start + 2 * hour), { command: pulse, graceSeconds: 10 });
    for (const atMs of [start + hour, start + 2 * hour]) {
      wait(device, atMs - 1 - device.nowMs);
      device.nowMs += 1;
      device.isDying = true;
      device.fireAlarm();
      device.isDying = false;
      wait(device, 15 * second);
      reply(device);
      report(device, 'up');
    }
    expect(pressed(device)).toMatchObject([{ params: up }]);
    expect(device.runs).toMatchObject([{ outcome: 'confirmed' }, { outcome: 'published', reason: 'outcome_unknown' }]);
  });

  it('whose alarm was lost runs with whatever wakes the device, and has an alarm from then on', () => {
    const device = online();
    put(device, 's', at('07:00'));
    device.nowMs = start + 7 * hour + 30 * second;
    report(device, 'down');
    expect(pressed(device)).toHaveLength(1);
    expect(device.state.alarm.setAtMs).toBeGreaterThan(device.nowMs);
    wait(device, day);
    expect(device.runs).toHaveLength(1);
    expect(pressed(device)).toHaveLength(2);
  });

  it('is missed beyond its grace, by a late alarm or because nothing ran the device', () => {
    const device = online();
    put(device, 's', at('07:00'));
    for (const lateMs of [58 * second, 59 * second, 3 * minute]) {
      device.nowMs = start + device.runs.length * day + 7 * hour + lateMs;
      device.fireAlarm();
      device.fireAlarm();
      wait(device, 10 * minute);
    }
    expect(device.runs).toMatchObject([
      { outcome: 'published' },
      { outcome: 'missed', reason: 'too_late' },
      { outcome: 'missed', reason: 'service_down' },
    ]);
    expect(pressed(device)).toHaveLength(1);
  });

  it('says of what it skips why: an excepted date, the sun, a pause, a disabled device', () => {
    const device = online();
    put(device, 'except', at('01:00', { except: ['2027-06-07'] }));
    const tromso = { sun: 'sunrise', offsetMinutes: 0, place: { latitude: 69.6, longitude: 19 } };
    put(device, 'sun', at('', { at: tromso }));
    put(device, 'paused', at('03:00'), { enabled: false });
    put(device, 'disabled', at('22:00'));
    wait(device, 20 * hour);
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled: true } });
    wait(device, 4 * hour);
    expect(device.runs.map(({ scheduleId, outcome, reason }) => [scheduleId, outcome, reason])).toEqual([
      ['except', 'skipped', 'excepted'],
      ['paused', 'skipped', 'paused'],
      ['sun', 'skipped', 'no_sun_event'],
      ['disabled', 'skipped', 'paused'],
    ]);
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled: false } });
    device.connect();
    wait(device, day);
    expect(device.runs.findLast(({ scheduleId }) => scheduleId === 'disabled')).toMatchObject({ outcome: 'published' });
  });

  it('spreads its runs by its jitter and keeps their due times', () => {
    const startsAt = [...Array(20).keys()].map((index) => {
      const device = online();
      put(device, `s${index}`, at('07:00'), { jitterSeconds: 20 });
      wait(device, 8 * hour);
      expect(device.runs).toMatchObject([{ dueAtMs: start + 7 * hour }]);
      return (device.commands()[0]?.acceptedAtMs ?? 0) - (start + 7 * hour);
    });
    expect(Math.max(...startsAt)).toBeLessThan(20 * second);
    expect(new Set(startsAt).size).toBeGreaterThan(15);
  });

  it('that is replaced or removed within its jitter leaves that due time as replaced', () => {
    const device = online();
    put(device, 's', at('07:00'), { jitterSeconds: 3600 });
    wait(device, 7 * hour);
    const removed = { kind: 'schedule_changed', actor: inPerson(1), scheduleId: 's', change: 'remove' } as const;
    expect(device.run(removed)).toMatchObject({ ok: true });
    expect(device.run(removed)).toMatchObject({ ok: false });
    expect(device.runs).toMatchObject([{ dueAtMs: start + 7 * hour, outcome: 'skipped', reason: 'replaced' }]);
    wait(device, 2 * day);
    expect(device.runs).toHaveLength(1);
  });

  it('is refused beyond 32 and 8 at a device, if its time never comes, and by a device that takes no commands', () => {
    const device = online();
    for (let index = 0; index < recurring.max; index++) put(device, `r${index}`, at('07:00'));
    for (let index = 0; index < oneShots.max; index++) put(device, `o${index}`, once(start + hour));
    expect(put(device, 'more', at('07:00'))).toMatchObject({ refusal: { limit: { name: 'schedulesPerDevice' } } });
    expect(put(device, 'more', once(start + hour))).toMatchObject({
      refusal: { limit: { name: 'oneShotsPerDevice' } },
    });
    expect(put(device, 'more', once(start))).toMatchObject({ refusal: { path: 'at' } });
    wait(device, 2 * hour);
    expect(put(device, 'more', once(start + 3 * hour))).toMatchObject({ ok: true });
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled: true } });
    expect(put(device, 'more', once(start + 3 * hour))).toMatchObject({ refusal: { kind: 'device_disabled' } });
  });

  it('ends with the device’s owner', () => {
    const device = online();
    put(device, 's', at('07:00'));
    device.run({ kind: 'released', actor: inPerson(1), defaultName: 'A switch' });
    expect(device.state).toMatchObject({ schedules: [], runs: { entries: 0, running: [] } });
  });
});

describe('the author of a schedule', () => {
  const withAuthor = (author = inPerson(2)) => {
    const device = online();
    share(device, 2, 'operator');
    unwrap(put(device, 's', at('07:00'), {}, author));
    return device;
  };

  it('is asked about at each run, and the run waits for the answer within its grace', () => {
    const device = withAuthor({ ...inPerson(2), keyId: 'ak_1' });
    wait(device, 7 * hour + 30 * second);
    expect(pressed(device)).toEqual([]);
    device.isAuthorValid = true;
    wait(device, 10 * second);
    expect(pressed(device)).toHaveLength(1);
    expect(device.commands()[0]).toMatchObject({ keyId: 'ak_1', givenBy: { userId: 2, withKey: true } });
    device.isAuthorValid = undefined;
    wait(device, day - minute);
    device.connect();
    wait(device, 5 * minute);
    expect(device.runs).toMatchObject([{ outcome: 'published' }, { outcome: 'missed', reason: 'service_down' }]);
    expect(pressed(device)).toHaveLength(1);
  });

  it.each(['removed', 'lowered', 'disabled'] as const)('who was %s pauses it, and the owner sees why', (what) => {
    const device = withAuthor();
    const party = { userId: 2, email: 'b@example.test', address: null };
    if (what === 'removed') device.run({ kind: 'member_removed', actor: inPerson(1), ...party });
    if (what === 'lowered') device.run({ kind: 'member_changed', actor: inPerson(1), role: 'viewer', ...party });
    device.isAuthorValid = what !== 'disabled';
    wait(device, 8 * hour);
    wait(device, day);
    expect(device.runs).toMatchObject([
      { outcome: 'refused', reason: 'author_lost_right' },
      { outcome: 'skipped', reason: 'paused' },
    ]);
    expect(pressed(device)).toEqual([]);
    expect(device.events()).toContainEqual(
      expect.objectContaining({ status: 'schedule', reason: 'schedule_paused', detail: 's' }),
    );
    device.run({ kind: 'schedule_changed', actor: inPerson(1), scheduleId: 's', change: 'resume' });
    wait(device, day);
    expect(pressed(device)).toHaveLength(1);
  });
});

it('a schedule that waits writes nothing, and D1 is told each next due time', () => {
  const device = online();
  wait(device, minute);
  put(device, 's', at('07:00'));
  const told = () =>
    device.effects.flatMap((effect) => (effect.kind === 'write_projection' ? [effect.projection.dueAt] : []));
  expect(told().at(-1)).toBe(start + 7 * hour);
  const rows = device.savedRows();
  const before = told().length;
  device.nowMs += 6 * hour;
  report(device, 'up');
  expect(device.savedRows()['schedules']).toBe(rows['schedules']);
  expect(told()).toHaveLength(before);
  wait(device, 2 * hour);
  expect(told().at(-1)).toBe(start + day + 7 * hour);
  device.run({ kind: 'schedule_changed', actor: inPerson(1), scheduleId: 's', change: 'remove' });
  wait(device, minute);
  expect(told().at(-1)).toBeNull();
});

it('what lies ahead is listed over all schedules, paused ones as skipped', () => {
  const device = online();
  put(device, 'late', at('09:00'));
  put(device, 'early', at('08:00'), { enabled: false });
  expect(listNext(device.state, 3)).toEqual([
    { scheduleId: 'early', dueAt: iso(start + 8 * hour), why: null, skipped: 'paused' },
    { scheduleId: 'late', dueAt: iso(start + 9 * hour), why: null, skipped: null },
    { scheduleId: 'early', dueAt: iso(start + day + 8 * hour), why: null, skipped: 'paused' },
  ]);
});

it('a year without the object is settled in bounded steps, without a hole', () => {
  const device = online();
  put(device, 's', at('07:00'));
  device.nowMs += 365 * day;
  const decision = { nowMs: device.nowMs, effects: [], newCommand: () => ({ commandId: 'c', number: 1 }) };
  expect(runDue(device.state, decision).newHistory).toHaveLength(200);
  device.fireAlarm();
  expect(device.runs).toHaveLength(365);
  expect(new Set(device.runs.map(({ dueAtMs }) => dueAtMs)).size).toBe(365);
  expect(device.state.runs.entries).toBe(365);
});

describe('a lease', () => {
  const lease = { seconds: 1800, then: down };
  const began = (seconds = 1800) => {
    const device = online();
    report(device, 'down');
    device.request({ params: up, ttlSeconds: undefined, lease: { ...lease, seconds } });
    reply(device);
    report(device, 'up');
    return device;
  };
  const sent = (device: CoreDevice) => pressed(device).map(({ params }) => params['position']);
  const press = (device: CoreDevice) => device.request({ params: up, ttlSeconds: undefined });

  it('sends its end at its time, once it is known to have happened no more, and is in the ledger', () => {
    const device = began();
    wait(device, 30 * minute - 1);
    expect(sent(device)).toEqual(['up']);
    expect(viewLease(device.state)).toMatchObject({ state: 'running', attempts: 0, endsAt: iso(start + 30 * minute) });
    wait(device, 1);
    reply(device);
    expect(viewLease(device.state)).toMatchObject({ state: 'pursuing', attempts: 1 });
    report(device, 'down');
    wait(device, day);
    expect(sent(device)).toEqual(['up', 'down']);
    expect(viewLease(device.state)).toBeUndefined();
    expect(device.runs).toMatchObject([{ scheduleId: 'lease', dueAtMs: start + 30 * minute, outcome: 'confirmed' }]);
    expect(device.commands()[0]).toMatchObject({ scheduleId: 'lease', givenBy: { userId: 1 }, state: 'confirmed' });
  });

  it('is pursued with growing pauses while nothing confirms it', () => {
    const device = began();
    wait(device, 30 * minute);
    for (const pauseMs of [10 * second, 30 * second, minute, 2 * minute, 5 * minute, 15 * minute, hour, hour]) {
      const before = sent(device).length;
      wait(device, pauseMs - 1);
      expect(sent(device)).toHaveLength(before);
      wait(device, 1);
      expect(sent(device)).toHaveLength(before + 1);
    }
  });

  it.each([
    ['10 s', 10 * second],
    ['10 min', 10 * minute],
    ['3 h', 3 * hour],
  ])('reaches a device that was away at its time for %s', (_, awayMs) => {
    const device = began();
    wait(device, 30 * minute - 5 * second);
    device.disconnect();
    wait(device, 5 * second);
    const before = sent(device).length;
    device.sleep();
    wait(device, awayMs - 5 * second);
    // No attempt while it is away, after the first.
    expect(sent(device)).toHaveLength(before);
    device.connect();
    wait(device, 3 * second);
    expect(sent(device)).toHaveLength(before + 1);
    reply(device);
    report(device, 'down');
    wait(device, day);
    expect(sent(device)).toHaveLength(before + 1);
    expect(device.runs).toMatchObject([{ outcome: 'confirmed' }]);
  });

  it.each<[string, (device: CoreDevice) => void, number]>([
    ['a newer command', (device) => void press(device), 2],
    ['a hand at the device', (device) => void report(device, 'middle'), 1],
    ['its user', (device) => void device.run({ kind: 'lease_ended', actor: inPerson(1) }), 1],
    [
      'a schedule',
      (device) => {
        put(device, 's', once(device.nowMs + minute));
        wait(device, minute);
      },
      2,
    ],
    [
      'a command whose answer was lost with the object',
      (device) => {
        device.isDying = true;
        press(device);
        device.isDying = false;
      },
      1,
    ],
  ])('is ended by %s, before its end and while it is pursued', (_, end, published) => {
    const running = began();
    wait(running, minute);
    end(running);
    wait(running, day);
    expect(sent(running)).toEqual(Array<string>(published).fill('up'));
    const away = began();
    away.disconnect();
    wait(away, hour);
    const before = sent(away).length;
    end(away);
    away.connect();
    wait(away, day);
    const more = sent(away).slice(before);
    expect(more.filter((position) => position === 'down')).toEqual([]);
    expect(away.runs.filter(({ scheduleId }) => scheduleId === 'lease')).toMatchObject([
      { outcome: 'skipped', reason: 'replaced' },
    ]);
  });

  it('waits while a newer command is with the broker, and goes on if that was not taken', () => {
    for (const isTaken of [false, true]) {
      const device = began();
      wait(device, 30 * minute - 2 * second);
      device.isBrokerSilent = true;
      const { commandId } = press(device);
      wait(device, 4 * second);
      expect(sent(device)).toEqual(['up', 'up']);
      device.isBrokerSilent = false;
      const taken = { ok: true, id: commandId, publishedAtMs: device.nowMs, hasSubscribers: true } as const;
      const outcome = isTaken ? taken : ({ ok: false, reason: 'refused' } as const);
      device.run({ kind: 'publication_ended', commandId, outcome });
      wait(device, 1);
      expect(sent(device).slice(2)).toEqual(isTaken ? [] : ['down']);
    }
  });

  it('begins only if the broker takes its command, and the one before stays until then', () => {
    const device = began(60);
    device.hasBroker = false;
    device.request({ params: up, ttlSeconds: undefined, lease: { ...lease, seconds: 7200 } });
    device.hasBroker = true;
    expect(viewLease(device.state)).toMatchObject({ endsAt: iso(start + minute) });
    device.request({ params: up, ttlSeconds: undefined, lease: { ...lease, seconds: 7200 } });
    expect(viewLease(device.state)).toMatchObject({ endsAt: iso(start + 2 * hour) });
  });

  it('ends with the reply of a device that has never reported a position', () => {
    const device = online();
    device.request({ params: up, ttlSeconds: undefined, lease });
    wait(device, 30 * minute);
    reply(device, 500);
    wait(device, 10 * second);
    expect(sent(device)).toEqual(['up', 'down', 'down']);
    reply(device);
    wait(device, day);
    expect(sent(device)).toHaveLength(3);
    expect(device.runs).toMatchObject([{ outcome: 'acknowledged' }]);
  });

  it('travels in the command only if the product says so', () => {
    const device = online();
    const send = () => device.request({ params: up, ttlSeconds: undefined, lease });
    send();
    const facts = { controlMode: 'toggle', offlineGraceSeconds: 0, reactivation: null, productChangedAtMs: 1 };
    device.run({ kind: 'product_changed', facts: { ...facts, supportsHold: true } });
    send();
    press(device);
    expect(pressed(device).map(({ params }) => params)).toEqual([up, { ...up, holdSeconds: 1800 }, up]);
    expect(device.commands()[1]).toMatchObject({ params: up });
  });

  it('never reaches a device that was pressed, whatever happens', () => {
    const does = 'lease lease press press wait wait connect leave reply up down middle broker die sleep alarm'.split(
      ' ',
    );
    const step = fc.record({ does: fc.constantFrom(...does), waitMs: fc.integer({ min: 0, max: 20 * minute }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const device = online();
        for (const { does: action, waitMs } of steps) {
          wait(device, action === 'wait' ? waitMs : waitMs / 1000);
          if (action === 'die') device.isDying = true;
          if (action === 'die' || action === 'alarm') device.fireAlarm();
          if (action === 'die') press(device);
          device.isDying = false;
          const own = action === 'lease' ? { lease: { seconds: 600, then: down } } : {};
          if (action === 'lease' || action === 'press') device.request({ params: up, ttlSeconds: undefined, ...own });
          if (action === 'connect') device.connect();
          if (action === 'leave') device.disconnect();
          if (action === 'reply') reply(device);
          if (['up', 'down', 'middle'].includes(action)) report(device, action);
          if (action === 'broker') device.hasBroker = !device.hasBroker;
          if (action === 'sleep') device.sleep();
          const { current } = device.state.lease;
          const order = pressed(device).map(({ id }) => device.commands().find(({ commandId }) => commandId === id));
          const last = order.findLast((command) => command?.scheduleId !== 'lease');
          // Only the end of the lease that the last press began.
          if (current !== null) expect(last?.commandId).toBe(current.commandId);
          if (order.at(-1)?.scheduleId === 'lease')
            expect(last?.acceptedAtMs).toBeLessThanOrEqual(device.nowMs - 600 * second);
        }
      }),
      { seed: fuzzSeed, numRuns: 300 },
    );
  });
});
