// Due times on the core with a moved clock: how each run ends, by name, and that the end of a lease is pursued. That no history
// loses a due time: random-runs.test.ts. The real object, its alarm and HTTP: test/worker/devices/schedules.test.ts.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import type { Timing } from '../../../src/domain/device/times/calendar.ts';
import type { ScheduleDraft } from '../../../src/domain/device/times/schedules.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { dayMs, hourMs, minuteMs, secondMs, toIso } from '../../../src/domain/time.ts';
import { always, CoreDevice, once } from './core-device.ts';

/** A Monday, 0:00 in Berlin, in summer. */
const start = Date.UTC(2027, 5, 6, 22);
const up = { action: 'toggle', position: 'up' } as const;
const down = { action: 'toggle', position: 'down' } as const;
const momentary = { command: { action: 'pulse' }, graceSeconds: 10 } as const;

const at = (time: string): Timing => ({ ...always, at: time, zone: 'Europe/Berlin' });

function put(
  device: CoreDevice,
  scheduleId: string,
  timing: Timing,
  more: Partial<ScheduleDraft> = {},
  actor = inPerson(1),
) {
  const plain = { name: 'S', command: up, jitterSeconds: 0, graceSeconds: 60, enabled: true };
  return device.run({ kind: 'schedule_put', actor, scheduleId, draft: { ...plain, ...timing, ...more }, isNew: true });
}

const change = (device: CoreDevice, what: 'remove' | 'resume') =>
  device.run({ kind: 'schedule_changed', actor: inPerson(1), scheduleId: 's', change: what });
const setDisabled = (device: CoreDevice, isDisabled: boolean) =>
  device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled } });
const press = (device: CoreDevice) => device.request({ params: up, ttlSeconds: undefined });

function online(): CoreDevice {
  const device = new CoreDevice(start);
  device.connect();
  return device;
}

function confirm(device: CoreDevice, position = 'up'): void {
  device.reply();
  device.report(position);
}

type Story = {
  name: string;
  draft?: Partial<ScheduleDraft>;
  /** Just before the due time. */
  before?: (device: CoreDevice) => unknown;
  after?: (device: CoreDevice) => unknown;
  presses: number;
  /** Outcome and reason of its run. */
  ends: string;
};

const isAway = (device: CoreDevice) => device.disconnect();
const hasNoBroker = (device: CoreDevice) => (device.hasBroker = false);
const dies = (device: CoreDevice) => (device.isDying = true);
/** The alarm comes so late, twice. */
const isLate = (ms: number) => (device: CoreDevice) => {
  device.nowMs = start + hourMs + ms;
  device.fireAlarm();
  device.fireAlarm();
};
const comesBack = (device: CoreDevice) => {
  device.wait(5 * minuteMs);
  device.connect();
  confirm(device);
};
const goesOn = (device: CoreDevice) => {
  device.hasBroker = true;
  device.isDying = false;
  device.wait(15 * secondMs);
  confirm(device);
};
const cancels = (device: CoreDevice) => {
  const commandId = device.commands()[0]?.commandId ?? '';
  unwrap(device.run({ kind: 'cancel_requested', actor: inPerson(1), commandId }));
};
const removesIt = (device: CoreDevice) => {
  expect(change(device, 'remove')).toMatchObject({ ok: true });
  expect(change(device, 'remove')).toMatchObject({ ok: false });
};

const patient = { graceSeconds: 600 };
const stories: Story[] = [
  { name: 'only a reply comes', after: (device) => device.reply(), presses: 1, ends: 'acknowledged' },
  { name: 'nothing comes', draft: momentary, presses: 1, ends: 'published' },
  { name: 'its command is cancelled', before: isAway, after: cancels, presses: 1, ends: 'refused cancelled' },
  { name: 'a newer command comes', before: isAway, after: press, presses: 2, ends: 'skipped replaced' },
  { name: 'a pulse finds nobody', draft: momentary, before: isAway, presses: 0, ends: 'missed device_offline' },
  { name: 'the device is away too long', before: isAway, presses: 1, ends: 'missed device_offline' },
  { name: 'the device returns', draft: patient, before: isAway, after: comesBack, presses: 2, ends: 'confirmed' },
  { name: 'a broker comes', before: hasNoBroker, after: goesOn, presses: 1, ends: 'confirmed' },
  { name: 'no broker comes', before: hasNoBroker, presses: 0, ends: 'missed service_down' },
  { name: 'the object is lost after its write', before: dies, after: goesOn, presses: 1, ends: 'confirmed' },
  {
    name: 'the object is lost after the write of a pulse',
    ...{ draft: momentary, before: dies, after: goesOn },
    ...{ presses: 0, ends: 'published outcome_unknown' },
  },
  { name: 'the alarm is late within the grace', before: isLate(58 * secondMs), presses: 1, ends: 'published' },
  { name: 'the alarm is later', before: isLate(59 * secondMs), presses: 0, ends: 'missed too_late' },
  { name: 'nothing ran the device', before: isLate(3 * minuteMs), presses: 0, ends: 'missed service_down' },
  { name: 'it is paused', draft: { enabled: false }, presses: 0, ends: 'skipped paused' },
  {
    name: 'it is removed within its jitter',
    ...{ draft: { jitterSeconds: 3600 }, after: removesIt },
    ...{ presses: 0, ends: 'skipped replaced' },
  },
];

describe('a schedule', () => {
  // Exceptions and the sun: random-runs.test.ts. Confirmations, and replies with an error: schedules.test.ts.
  it.each(stories)('has one run if $name: $ends', ({ draft, before, after, presses, ends }) => {
    const device = online();
    unwrap(put(device, 's', once(start + hourMs), draft));
    device.wait(hourMs - 1);
    expect(device.sent).toEqual([]);
    before?.(device);
    device.waitUntil(Math.max(device.nowMs, start + hourMs));
    after?.(device);
    device.wait(12 * minuteMs);
    expect(device.sent).toHaveLength(presses);
    expect(device.runs.map(({ outcome, reason }) => (reason === null ? outcome : `${outcome} ${reason}`))).toEqual([
      ends,
    ]);
  });

  it('presses at its time, each day it is not disabled, as its author', () => {
    const device = online();
    put(device, 's', at('07:30'));
    device.wait(8 * hourMs);
    expect(device.sent).toMatchObject([{ params: up }]);
    const [command] = device.commands();
    const acceptedAtMs = start + 7.5 * hourMs;
    expect(command).toMatchObject({ scheduleId: 's', acceptedAtMs, givenBy: { userId: 1, withKey: false } });
    setDisabled(device, true);
    device.wait(dayMs);
    setDisabled(device, false);
    device.connect();
    device.wait(dayMs);
    expect(device.runs).toMatchObject([
      { scheduleId: 's', dueAtMs: acceptedAtMs, commandId: command?.commandId },
      { dueAtMs: acceptedAtMs + dayMs, outcome: 'skipped', reason: 'paused' },
      { dueAtMs: acceptedAtMs + 2 * dayMs, outcome: 'published' },
    ]);
  });

  it('whose alarm was lost runs with whatever wakes the device, and has an alarm from then on', () => {
    const device = online();
    put(device, 's', at('07:00'));
    device.nowMs = start + 7 * hourMs + 30 * secondMs;
    device.report('down');
    expect(device.sent).toHaveLength(1);
    expect(device.state.alarm.setAtMs).toBeGreaterThan(device.nowMs);
    device.wait(dayMs);
    expect(device.sent).toHaveLength(2);
  });

  it('spreads its runs by its jitter and keeps their due times', () => {
    const startsAt = [...Array(20).keys()].map((index) => {
      const device = online();
      put(device, `s${index}`, at('07:00'), { jitterSeconds: 20 });
      device.wait(8 * hourMs);
      expect(device.runs).toMatchObject([{ dueAtMs: start + 7 * hourMs }]);
      return (device.commands()[0]?.acceptedAtMs ?? 0) - (start + 7 * hourMs);
    });
    expect(Math.max(...startsAt)).toBeLessThan(20 * secondMs);
    expect(new Set(startsAt).size).toBeGreaterThan(15);
  });

  it('is refused beyond 32 and 8 at a device, if its time never comes, and by a device that takes no commands', () => {
    const device = online();
    for (let index = 0; index < 32; index++) put(device, `r${index}`, at('07:00'));
    for (let index = 0; index < 8; index++) put(device, `o${index}`, once(start + hourMs));
    const putMore = (timing: Timing) => put(device, 'more', timing);
    expect(putMore(at('07:00'))).toMatchObject({ refusal: { limit: { name: 'schedulesPerDevice', max: 32 } } });
    expect(putMore(once(start + hourMs))).toMatchObject({ refusal: { limit: { name: 'oneShotsPerDevice', max: 8 } } });
    expect(putMore(once(start))).toMatchObject({ refusal: { path: 'at' } });
    device.wait(2 * hourMs);
    expect(putMore(once(start + 3 * hourMs))).toMatchObject({ ok: true });
    setDisabled(device, true);
    expect(putMore(once(start + 3 * hourMs))).toMatchObject({ refusal: { kind: 'device_disabled' } });
  });

  it('ends with the device’s owner', () => {
    const device = online();
    put(device, 's', at('07:00'));
    device.request({ params: up, ttlSeconds: undefined, lease: { seconds: 60, then: down } });
    device.run({ kind: 'released', actor: inPerson(1), defaultName: 'A switch' });
    const lease = { current: null };
    expect(device.state).toMatchObject({ schedules: [], runs: { entries: 0, running: [] }, lease });
  });

  it('that waits writes nothing', () => {
    const device = online();
    put(device, 's', at('07:00'));
    device.wait(minuteMs);
    const told = () =>
      device.effects.flatMap((effect) => (effect.kind === 'write_projection' ? [effect.projection.dueAt] : []));
    expect(told().at(-1)).toBe(start + 7 * hourMs);
    const [rows, before] = [device.savedRows(), told().length];
    device.nowMs += 6 * hourMs;
    device.report('up');
    expect(device.savedRows()['schedules']).toBe(rows['schedules']);
    expect(told()).toHaveLength(before);
  });
});

describe('the author of a schedule', () => {
  const party = { userId: 2, email: 'b@example.test', address: null };
  const withAuthor = (author = inPerson(2)) => {
    const device = online();
    device.run({ kind: 'member_joined', role: 'operator', invitedBy: 1, ...party });
    unwrap(put(device, 's', at('07:00'), {}, author));
    return device;
  };

  it('is asked about at each run, and the run waits for the answer within its grace', () => {
    const device = withAuthor({ ...inPerson(2), keyId: 'ak_1' });
    device.wait(7 * hourMs + 30 * secondMs);
    expect(device.sent).toEqual([]);
    device.isAuthorValid = true;
    device.wait(10 * secondMs);
    expect(device.sent).toHaveLength(1);
    expect(device.commands()[0]).toMatchObject({ keyId: 'ak_1', givenBy: { userId: 2, withKey: true } });
    device.isAuthorValid = undefined;
    device.wait(dayMs - minuteMs);
    device.connect();
    device.wait(5 * minuteMs);
    expect(device.runs).toMatchObject([{ outcome: 'published' }, { outcome: 'missed', reason: 'service_down' }]);
    expect(device.sent).toHaveLength(1);
  });

  it('is asked about before a momentary command, which is not sent again to a device that comes back', () => {
    const device = withAuthor();
    device.isAuthorValid = true;
    put(device, 'momentary', once(start + hourMs), momentary, inPerson(2));
    device.wait(hourMs - 1);
    device.connect();
    device.wait(3 * secondMs);
    device.disconnect();
    device.connect();
    device.wait(minuteMs);
    expect(device.sent).toMatchObject([{ params: momentary.command }]);
    expect(device.runs).toMatchObject([{ outcome: 'published' }]);
  });

  it.each(['removed', 'lowered', 'disabled'] as const)('who was %s pauses it, and the owner sees why', (what) => {
    const device = withAuthor();
    if (what === 'removed') device.run({ kind: 'member_removed', actor: inPerson(1), ...party });
    if (what === 'lowered') device.run({ kind: 'member_changed', actor: inPerson(1), role: 'viewer', ...party });
    device.isAuthorValid = what !== 'disabled';
    device.wait(dayMs + 8 * hourMs);
    expect(device.runs).toMatchObject([
      { outcome: 'refused', reason: 'author_lost_right' },
      { outcome: 'skipped', reason: 'paused' },
    ]);
    expect(device.sent).toEqual([]);
    const event = { status: 'schedule', reason: 'schedule_paused', detail: 's' };
    expect(device.events()).toContainEqual(expect.objectContaining(event));
    change(device, 'resume');
    device.wait(dayMs);
    expect(device.sent).toHaveLength(1);
  });
});

it('a year without the object is settled in bounded steps, without a hole', () => {
  const device = new CoreDevice(start);
  put(device, 's', at('07:00'));
  device.wait(minuteMs);
  // What D1 answers would settle the rest.
  device.projectionOutcome = undefined;
  device.nowMs = start + 365 * dayMs;
  device.fireAlarm();
  expect(device.runs).toHaveLength(200);
  device.wait(minuteMs);
  expect(new Set(device.runs.map(({ dueAtMs }) => dueAtMs)).size).toBe(365);
  expect(device.runs).toHaveLength(365);
});

describe('a lease', () => {
  const lease = { seconds: 1800, then: down };
  const begin = (device: CoreDevice, seconds = 1800) =>
    device.request({ params: up, ttlSeconds: undefined, lease: { ...lease, seconds } });
  const began = (seconds?: number) => {
    const device = online();
    device.report('down');
    begin(device, seconds);
    confirm(device);
    return device;
  };
  const positions = (device: CoreDevice) => device.sent.map(({ params }) => params['position']);

  it('sends its end at its time, once it is known to have happened no more, and is in the ledger', () => {
    const device = began();
    device.wait(30 * minuteMs - 1);
    expect(positions(device)).toEqual(['up']);
    const dueAtMs = start + 30 * minuteMs;
    expect(device.status().lease).toMatchObject({ state: 'running', attempts: 0, endsAt: toIso(dueAtMs) });
    device.wait(1);
    device.reply();
    expect(device.status().lease).toMatchObject({ state: 'pursuing', attempts: 1 });
    device.report('down');
    device.wait(dayMs);
    expect(positions(device)).toEqual(['up', 'down']);
    expect(device.status().lease).toBeUndefined();
    expect(device.runs).toMatchObject([{ scheduleId: 'lease', dueAtMs, outcome: 'confirmed' }]);
    expect(device.commands()[0]).toMatchObject({ scheduleId: 'lease', givenBy: { userId: 1 }, state: 'confirmed' });
  });

  it('is pursued with growing pauses while nothing confirms it', () => {
    const device = began();
    device.wait(30 * minuteMs);
    for (const pauseSeconds of [10, 30, 60, 120, 300, 900, 3600, 3600]) {
      const before = device.sent.length;
      device.wait(pauseSeconds * secondMs - 1);
      expect(device.sent).toHaveLength(before);
      device.wait(1);
      expect(device.sent).toHaveLength(before + 1);
    }
  });

  it.each([
    ['10 s', 10 * secondMs],
    ['10 min', 10 * minuteMs],
    ['3 h', 3 * hourMs],
  ])('reaches a device that was away at its time for %s', (_, awayMs) => {
    const device = began();
    device.wait(30 * minuteMs - 5 * secondMs);
    device.disconnect();
    device.wait(5 * secondMs);
    const before = device.sent.length;
    device.sleep();
    device.wait(awayMs - 5 * secondMs);
    // No attempt while it is away, after the first.
    expect(device.sent).toHaveLength(before);
    device.connect();
    device.wait(3 * secondMs);
    expect(device.sent).toHaveLength(before + 1);
    confirm(device, 'down');
    device.wait(dayMs);
    expect(device.sent).toHaveLength(before + 1);
    expect(device.runs).toMatchObject([{ outcome: 'confirmed' }]);
  });

  const runsSchedule = (device: CoreDevice) => {
    put(device, 's', once(device.nowMs + minuteMs));
    device.wait(minuteMs);
  };
  const losesAnswer = (device: CoreDevice) => {
    device.isDying = true;
    press(device);
    device.isDying = false;
  };
  it.each<[string, (device: CoreDevice) => unknown, number]>([
    ['a newer command', press, 2],
    ['a hand at the device', (device) => device.report('middle'), 1],
    ['its user', (device) => device.run({ kind: 'lease_ended', actor: inPerson(1) }), 1],
    ['a schedule', runsSchedule, 2],
    ['a command whose answer was lost with the object', losesAnswer, 1],
  ])('is ended by %s, before its end and while it is pursued', (_, end, published) => {
    const running = began();
    running.wait(minuteMs);
    end(running);
    running.wait(dayMs);
    expect(positions(running)).toEqual(Array<string>(published).fill('up'));
    expect(running.runs.filter(({ scheduleId }) => scheduleId === 'lease')).toEqual([]);
    const away = began();
    away.disconnect();
    away.wait(hourMs);
    const before = away.sent.length;
    end(away);
    away.connect();
    away.wait(dayMs);
    expect(positions(away).slice(before)).not.toContain('down');
    expect(away.runs.filter(({ scheduleId }) => scheduleId === 'lease')).toMatchObject([
      { outcome: 'skipped', reason: 'replaced' },
    ]);
  });

  it.each<[boolean, string[]]>([
    [true, []],
    [false, ['down']],
  ])('waits while a newer command is with the broker; that was taken: %s, sends then: %j', (isTaken, then) => {
    const device = began();
    device.wait(30 * minuteMs - 2 * secondMs);
    device.isBrokerSilent = true;
    const { commandId } = press(device);
    device.wait(4 * secondMs);
    expect(positions(device)).toEqual(['up', 'up']);
    device.isBrokerSilent = false;
    const publication = { ok: true, id: commandId, publishedAtMs: device.nowMs, hasSubscribers: true } as const;
    const outcome = isTaken ? publication : ({ ok: false, reason: 'refused' } as const);
    device.run({ kind: 'publication_ended', commandId, outcome });
    device.wait(1);
    expect(positions(device).slice(2)).toEqual(then);
  });

  it('begins only if the broker takes its command, and the one before stays until then', () => {
    const device = began(60);
    device.hasBroker = false;
    begin(device, 7200);
    device.hasBroker = true;
    expect(device.status().lease).toMatchObject({ endsAt: toIso(start + minuteMs) });
    begin(device, 7200);
    expect(device.status().lease).toMatchObject({ endsAt: toIso(start + 2 * hourMs) });
  });

  it('ends with the reply of a device that has never reported a position', () => {
    const device = online();
    begin(device);
    device.wait(30 * minuteMs);
    device.reply(500);
    device.wait(10 * secondMs);
    expect(positions(device)).toEqual(['up', 'down', 'down']);
    device.reply();
    device.wait(dayMs);
    expect(device.sent).toHaveLength(3);
    expect(device.runs).toMatchObject([{ outcome: 'acknowledged' }]);
  });

  it('never reaches a device that was pressed, whatever happens', () => {
    const does = 'lease lease press press wait wait connect leave reply up down middle broker die sleep alarm'.split(
      ' ',
    );
    const step = fc.record({ does: fc.constantFrom(...does), waitMs: fc.integer({ min: 0, max: 20 * minuteMs }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const device = online();
        for (const { does: action, waitMs } of steps) {
          device.wait(action === 'wait' ? waitMs : waitMs / 1000);
          if (action === 'die') device.isDying = true;
          if (action === 'die' || action === 'alarm') device.fireAlarm();
          if (action === 'die') press(device);
          device.isDying = false;
          if (action === 'lease') begin(device, 600);
          if (action === 'press') press(device);
          if (action === 'connect') device.connect();
          if (action === 'leave') device.disconnect();
          if (action === 'reply') device.reply();
          if (['up', 'down', 'middle'].includes(action)) device.report(action);
          if (action === 'broker') device.hasBroker = !device.hasBroker;
          if (action === 'sleep') device.sleep();
          const { current } = device.state.lease;
          const order = device.sent.map(({ id }) => device.commands().find(({ commandId }) => commandId === id));
          const last = order.findLast((command) => command?.scheduleId !== 'lease');
          // Only the end of the lease that the last press began.
          if (current !== null) expect(last?.commandId).toBe(current.commandId);
          if (order.at(-1)?.scheduleId === 'lease')
            expect(last?.acceptedAtMs).toBeLessThanOrEqual(device.nowMs - 600 * secondMs);
        }
      }),
      { seed: fuzzSeed, numRuns: 300 },
    );
  });
});
