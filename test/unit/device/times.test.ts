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
import { always, CoreDevice, down, once, onlineDevice, up } from './core-device.ts';

/** A Monday, 0:00 in Berlin, in summer. */
const start = Date.UTC(2027, 5, 6, 22);
const daily: Timing = { ...always, at: '07:00', zone: 'Europe/Berlin' };
const momentary = { command: { action: 'pulse' }, graceSeconds: 10 } as const;
const patient = { graceSeconds: 600 };

type Deed = (device: CoreDevice) => unknown;

const press = (device: CoreDevice) => device.request({ params: up, ttlSeconds: undefined });

/** The object is lost after each write, before its effects. */
const loses =
  (deed: Deed): Deed =>
  (device) => {
    device.isDying = true;
    deed(device);
    device.isDying = false;
  };

const online = () => onlineDevice(start);

function confirm(device: CoreDevice, position = 'up'): void {
  device.reply();
  device.report(position);
}

type Story = {
  name: string;
  draft?: Partial<ScheduleDraft>;
  /** Just before the due time. */
  before?: Deed;
  after?: Deed;
  presses: number;
  /** Outcome and reason of its run. */
  ends: string;
};

const isAway: Deed = (device) => device.disconnect();
const hasNoBroker: Deed = (device) => (device.hasBroker = false);
const dies: Deed = (device) => (device.isDying = true);
/** The alarm comes so late, twice. */
const isLate =
  (ms: number): Deed =>
  (device) => {
    device.nowMs = start + hourMs + ms;
    device.fireAlarm();
    device.fireAlarm();
  };
const comesBack: Deed = (device) => {
  device.wait(5 * minuteMs);
  device.connect();
  confirm(device);
};
const goesOn: Deed = (device) => {
  device.hasBroker = true;
  device.isDying = false;
  device.wait(15 * secondMs);
  confirm(device);
};
const isCancelled: Deed = (device) => {
  const commandId = device.commands()[0]?.commandId ?? '';
  unwrap(device.run({ kind: 'cancel_requested', actor: inPerson(1), commandId }));
};
const isDisabled: Deed = (device) => device.setDisabled(true);
const wasDisabled: Deed = (device) => {
  device.setDisabled(true);
  device.setDisabled(false);
  device.connect();
};
const isRemoved: Deed = (device) => {
  expect(device.changeSchedule('s', 'remove')).toMatchObject({ ok: true });
  expect(device.changeSchedule('s', 'remove')).toMatchObject({ ok: false });
};
const inJitter = { jitterSeconds: 3600 };

const stories: Story[] = [
  { name: 'only a reply comes', after: (device) => device.reply(), presses: 1, ends: 'acknowledged' },
  { name: 'nothing comes', draft: momentary, presses: 1, ends: 'published' },
  { name: 'its command is cancelled', before: isAway, after: isCancelled, presses: 1, ends: 'refused cancelled' },
  { name: 'a newer command comes', before: isAway, after: press, presses: 2, ends: 'skipped replaced' },
  { name: 'a pulse finds nobody', draft: momentary, before: isAway, presses: 0, ends: 'missed device_offline' },
  { name: 'the device is away too long', before: isAway, presses: 1, ends: 'missed device_offline' },
  { name: 'the device returns', draft: patient, before: isAway, after: comesBack, presses: 2, ends: 'confirmed' },
  { name: 'a broker comes', before: hasNoBroker, after: goesOn, presses: 1, ends: 'confirmed' },
  { name: 'no broker comes', before: hasNoBroker, presses: 0, ends: 'missed service_down' },
  { name: 'the object is lost', before: dies, after: goesOn, presses: 1, ends: 'confirmed' },
  { name: 'it is lost with a pulse', draft: momentary, before: dies, presses: 0, ends: 'published outcome_unknown' },
  { name: 'the alarm is late within the grace', before: isLate(58 * secondMs), presses: 1, ends: 'published' },
  { name: 'the alarm is later', before: isLate(59 * secondMs), presses: 0, ends: 'missed too_late' },
  { name: 'nothing ran the device', before: isLate(3 * minuteMs), presses: 0, ends: 'missed service_down' },
  { name: 'it is paused', draft: { enabled: false }, presses: 0, ends: 'skipped paused' },
  { name: 'its device is disabled', before: isDisabled, presses: 0, ends: 'skipped paused' },
  { name: 'its device was disabled until then', before: wasDisabled, presses: 1, ends: 'published' },
  { name: 'it is removed within its jitter', draft: inJitter, after: isRemoved, presses: 0, ends: 'skipped replaced' },
];

describe('a schedule', () => {
  // Exceptions and the sun: random-runs.test.ts. Confirmations, replies with an error, and limits: schedules.test.ts.
  it.each(stories)('has one run if $name: $ends', ({ draft, before, after, presses, ends }) => {
    const device = online();
    unwrap(device.schedule('s', once(start + hourMs), draft));
    device.wait(hourMs - 1);
    expect(device.sent).toEqual([]);
    before?.(device);
    device.waitUntil(Math.max(device.nowMs, start + hourMs));
    after?.(device);
    device.wait(12 * minuteMs);
    expect(device.sent).toHaveLength(presses);
    expect(device.runs.map(({ outcome, reason }) => `${outcome} ${reason ?? ''}`.trim())).toEqual([ends]);
  });

  it('presses at the same time as others, each of them once', () => {
    const device = online();
    for (let index = 0; index < 8; index++) unwrap(device.schedule(`s${index}`, once(start + hourMs), momentary));
    device.wait(2 * hourMs);
    expect(device.sent).toHaveLength(8);
    expect(device.runs.map(({ outcome }) => outcome)).toEqual(Array(8).fill('published'));
  });

  it('spreads its runs by its jitter', () => {
    const startsAt = Array.from({ length: 20 }, (_, index) => {
      const device = online();
      device.schedule(`s${index}`, daily, { jitterSeconds: 20 });
      device.wait(8 * hourMs);
      return device.commands()[0]?.acceptedAtMs ?? Infinity;
    });
    expect(Math.max(...startsAt)).toBeLessThan(start + 7 * hourMs + 20 * secondMs);
    expect(new Set(startsAt).size).toBeGreaterThan(15);
  });

  it('is refused by a device that takes no commands, and ends with the device’s owner', () => {
    const device = online();
    device.setDisabled(true);
    expect(device.schedule('s', daily)).toMatchObject({ refusal: { kind: 'device_disabled' } });
    device.setDisabled(false);
    unwrap(device.schedule('s', daily));
    device.request({ params: up, ttlSeconds: undefined, lease: { seconds: 60, then: down } });
    device.run({ kind: 'released', actor: inPerson(1), defaultName: 'A switch' });
    expect(device.changeSchedule('s', 'resume')).toMatchObject({ refusal: { kind: 'not_found' } });
    expect(device.status().lease).toBeUndefined();
    device.wait(dayMs);
    expect([device.sent.length, device.runs]).toEqual([1, []]);
  });

  it('that has run once makes room for another', () => {
    const device = online();
    for (let index = 0; index < 8; index++) device.schedule(`s${index}`, once(start + hourMs));
    const putMore = () => device.schedule('more', once(start + 3 * hourMs));
    expect(putMore()).toMatchObject({ refusal: { kind: 'limit_reached' } });
    device.wait(2 * hourMs);
    expect(putMore()).toMatchObject({ ok: true });
  });

  it('that waits writes nothing', () => {
    const device = online();
    device.schedule('daily-1', daily);
    device.wait(minuteMs);
    const dueTimes = () => device.writes().map(({ projection }) => projection.dueAt);
    const rows = () => Object.values(device.savedRows()).filter((json) => json.includes('daily-1'));
    expect(dueTimes().at(-1)).toBe(start + 7 * hourMs);
    const before = [rows(), dueTimes()];
    device.nowMs += 6 * hourMs;
    device.report('up');
    expect([rows(), dueTimes()]).toEqual(before);
    expect(rows()).toHaveLength(1);
  });

  it('tells D1 its next due time once, again if that failed, and no alarm follows a run that has ended', () => {
    const device = online();
    device.schedule('s', daily);
    device.wait(7 * hourMs - secondMs);
    device.projectionOutcome = undefined;
    device.wait(2 * secondMs);
    confirm(device);
    expect(device.writes().at(-1)).toMatchObject({ mayBeLost: true, projection: { dueAt: start + 31 * hourMs } });
    expect(device.state.presence.isProjectionBehind).toBe(false);
    expect(device.state.alarm.setAtMs).toBeGreaterThan(device.nowMs + minuteMs);
    device.endProjection(device.writes().at(-1)!.projection.version, 'failed');
    device.wait(minuteMs);
    expect(device.writes().at(-1)).toMatchObject({ mayBeLost: false, projection: { dueAt: start + 31 * hourMs } });
  });

  it('that nothing ran for a year is settled in bounded steps, without a hole', () => {
    const device = new CoreDevice(start);
    device.schedule('s', daily);
    device.wait(minuteMs);
    // What D1 answers would settle the rest.
    device.projectionOutcome = undefined;
    // Its answers would be further steps.
    device.hasInbox = false;
    device.nowMs = start + 365 * dayMs;
    device.fireAlarm();
    expect(device.runs).toHaveLength(200);
    device.wait(minuteMs);
    expect(new Set(device.runs.map(({ dueAtMs }) => dueAtMs)).size).toBe(365);
    expect(device.runs).toHaveLength(365);
  });
});

describe('the author of a schedule', () => {
  const party = { userId: 2, email: 'b@example.test', address: null };
  const withAuthor = (author = inPerson(2)) => {
    const device = online();
    device.run({ kind: 'member_joined', role: 'operator', invitedBy: 1, ...party });
    unwrap(device.schedule('s', daily, {}, author));
    return device;
  };

  it('is asked about at each run, and the run waits for the answer within its grace', () => {
    const device = withAuthor({ ...inPerson(2), keyId: 'ak_1' });
    device.wait(7 * hourMs + 30 * secondMs);
    expect(device.sent).toEqual([]);
    device.isAuthorValid = true;
    device.wait(10 * secondMs);
    expect(device.sent).toHaveLength(1);
    const author = { keyId: 'ak_1', givenBy: { userId: 2, withKey: true } };
    expect(device.commands()[0]).toMatchObject({ scheduleId: 's', ...author });
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
    device.schedule('momentary', once(start + hourMs), momentary, inPerson(2));
    device.wait(hourMs + secondMs);
    device.connect();
    device.wait(minuteMs);
    expect(device.sent).toMatchObject([{ params: momentary.command }]);
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
    expect(device.state.schedules).toMatchObject([{ pausedBecause: 'author_lost_right' }]);
    device.changeSchedule('s', 'resume');
    device.wait(dayMs);
    expect(device.sent).toHaveLength(1);
  });
});

describe('a lease', () => {
  const begin = (device: CoreDevice, seconds = 1800) =>
    device.request({ params: up, ttlSeconds: undefined, lease: { seconds, then: down } });
  const began = (seconds?: number) => {
    const device = online();
    device.report('down');
    begin(device, seconds);
    confirm(device);
    return device;
  };
  const positions = (device: CoreDevice) => device.sent.map(({ params }) => params['position']);

  it('sends its end at its time, and then with growing pauses while nothing confirms it', () => {
    const device = began();
    for (const pauseSeconds of [1800, 10, 30, 60, 120, 300, 900, 3600, 3600]) {
      const before = device.sent.length;
      device.wait(pauseSeconds * secondMs - 1);
      expect(device.sent).toHaveLength(before);
      device.wait(1);
      expect(positions(device).slice(before)).toEqual(['down']);
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
    device.sleep();
    device.wait(awayMs - 5 * secondMs);
    // No attempt while it is away, after the first.
    expect(positions(device)).toEqual(['up', 'down']);
    device.connect();
    device.wait(3 * secondMs);
    confirm(device, 'down');
    device.wait(dayMs);
    expect(positions(device)).toEqual(['up', 'down', 'down']);
    expect(device.runs).toMatchObject([{ dueAtMs: start + 30 * minuteMs, outcome: 'confirmed' }]);
    expect(device.commands()[0]).toMatchObject({ scheduleId: 'lease', givenBy: { userId: 1 } });
  });

  it.each<[string, Deed]>([
    ['a newer command', press],
    ['a hand at the device', (device) => device.report('middle')],
    ['its user', (device) => device.run({ kind: 'lease_ended', actor: inPerson(1) })],
    ['a schedule', (device) => device.schedule('s', once(device.nowMs + minuteMs))],
    ['a command whose answer was lost with the object', loses(press)],
  ])('is ended by %s, before its end and while it is pursued', (_, end) => {
    for (const isPursued of [false, true]) {
      const device = began();
      if (isPursued) device.disconnect();
      device.wait(isPursued ? hourMs : minuteMs);
      const before = device.sent.length;
      end(device);
      device.wait(minuteMs);
      device.connect();
      device.wait(dayMs);
      expect(positions(device).slice(before)).not.toContain('down');
      const own = device.runs.filter(({ scheduleId }) => scheduleId === 'lease');
      expect(own).toMatchObject(isPursued ? [{ outcome: 'skipped', reason: 'replaced' }] : []);
    }
  });

  it.each([
    { isTaken: true, then: [] },
    { isTaken: false, then: ['down'] },
  ])('waits while a newer command is with the broker: $isTaken, then $then', ({ isTaken, then }) => {
    const device = began();
    device.wait(30 * minuteMs - 2 * secondMs);
    device.isBrokerSilent = true;
    const { commandId } = press(device);
    device.wait(4 * secondMs);
    expect(positions(device)).toEqual(['up', 'up']);
    device.isBrokerSilent = false;
    const published = { ok: true, id: commandId, publishedAtMs: device.nowMs, hasSubscribers: true } as const;
    const outcome = isTaken ? published : ({ ok: false, reason: 'refused' } as const);
    device.run({ kind: 'publication_ended', commandId, outcome });
    device.wait(1);
    expect(positions(device).slice(2)).toEqual(then);
  });

  it('begins only if the broker takes its command, and the one before stays until then', () => {
    const device = began(60);
    const endsAt = () => device.status().lease?.endsAt;
    device.hasBroker = false;
    begin(device, 7200);
    device.hasBroker = true;
    expect(endsAt()).toBe(toIso(start + minuteMs));
    begin(device, 7200);
    expect(endsAt()).toBe(toIso(start + 2 * hourMs));
  });

  it('ends with the reply of a device that has never reported a position', () => {
    const device = online();
    begin(device);
    device.wait(30 * minuteMs);
    device.reply(500);
    device.wait(10 * secondMs);
    device.reply();
    device.wait(dayMs);
    expect(positions(device)).toEqual(['up', 'down', 'down']);
    expect(device.runs).toMatchObject([{ outcome: 'acknowledged' }]);
  });

  it('never reaches a device that was pressed, whatever happens', () => {
    const deeds: Deed[] = [
      ...[press, press, (device: CoreDevice) => begin(device, 600), (device: CoreDevice) => begin(device, 600)],
      loses(press),
      loses((device) => device.fireAlarm()),
      (device) => device.fireAlarm(),
      (device) => device.sleep(),
      (device) => device.connect(),
      (device) => device.disconnect(),
      (device) => device.reply(),
      ...['up', 'down', 'middle'].map((position) => (device: CoreDevice) => device.report(position)),
      (device) => (device.hasBroker = !device.hasBroker),
    ];
    const waitMs = fc.oneof({ weight: 7, arbitrary: fc.nat(secondMs) }, fc.nat(20 * minuteMs));
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...deeds), waitMs), { maxLength: 80 }), (steps) => {
        const device = online();
        for (const [deed, ms] of steps) {
          device.wait(ms);
          deed(device);
          const order = device.sent.map(({ id }) => device.commands().find(({ commandId }) => commandId === id));
          const last = order.findLast((command) => command?.scheduleId !== 'lease');
          const { lease } = device.status();
          // Only the end of the lease that the last press began.
          if (lease !== undefined) expect(last?.commandId).toBe(lease.commandId);
          if (order.at(-1)?.scheduleId === 'lease')
            expect(last?.acceptedAtMs).toBeLessThanOrEqual(device.nowMs - 600 * secondMs);
        }
      }),
      { seed: fuzzSeed, numRuns: 300 },
    );
  });
});
