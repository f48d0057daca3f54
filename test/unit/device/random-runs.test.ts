// The ledger of due times against the calendar, through restarts at any step, clocks that move, and alarms that come late, twice
// or never: no due time without an outcome, none with two, no press outside its grace or for a schedule that must not press.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { nextDue, type Timing } from '../../../src/domain/device/times/calendar.ts';
import { hourMs, minuteMs, secondMs } from '../../../src/domain/time.ts';
import { always, CoreDevice, down, once, up } from './core-device.ts';

const pulse = { action: 'pulse' } as const;
const owner = inPerson(1);
const operator = { userId: 2, email: 'b@example.test', address: null };

/** The clock changes in the first night after two of these; some days after the third the sun sets no more. */
const starts = ['2027-03-27T22:00Z', '2027-10-30T22:00Z', '2027-05-14T22:00Z'].map((text) => Date.parse(text));
const place = { latitude: 69.6, longitude: 19 };
const recurring = (at: Timing['at']): Timing => {
  const except = ['2027-03-29', '2027-10-31', '2027-05-16'];
  return { ...always, at, zone: 'Europe/Berlin', except };
};
const graces = fc.constantFrom(10, 60, 600);
const plans = fc.record({
  /** A number: a one-shot so many hours from now. */
  when: fc.oneof(
    fc.constantFrom('00:10', '02:30', '07:00', '23:50').map((time) => recurring(time)),
    fc.constantFrom('sunrise', 'sunset').map((sun) => recurring({ sun, offsetMinutes: -20, place })),
    fc.integer({ min: 1, max: 99 }),
  ),
  command: fc.constantFrom(up, down, pulse),
  jitterSeconds: fc.constantFrom(0, 20),
  graceSeconds: graces,
  isByOperator: fc.boolean(),
});
type Plan = typeof plans extends fc.Arbitrary<infer Value> ? Value : never;

const clocks = ['alarm', 'two alarms', 'late alarm', 'lost alarm', 'clock back', 'death', 'woken', 'none'] as const;
const devices = ['reply', 'report', 'connect', 'leave', 'reconnect', 'press', 'broker'] as const;
const users = ['pause', 'resume', 'remove', 'put', 'disable', 'enable', 'demote', 'promote', 'account', 'run'] as const;
const steps = fc.record({
  does: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...clocks) },
    { weight: 2, arbitrary: fc.constantFrom(...devices) },
    { weight: 1, arbitrary: fc.constantFrom(...users) },
  ),
  /** The wait begins at the next due time. */
  isAfterDue: fc.boolean(),
  waitMs: fc.oneof(
    fc.integer({ min: -secondMs, max: 5 * secondMs }),
    fc.tuple(graces, fc.integer({ min: -3 * secondMs, max: secondMs })).map(([grace, more]) => grace * secondMs + more),
    fc.integer({ min: 0, max: 9 * hourMs }),
  ),
  index: fc.nat({ max: 3 }),
  plan: plans,
  restarts: fc.boolean(),
});
type Step = typeof steps extends fc.Arbitrary<infer Value> ? Value : never;

/** What a schedule is from `fromMs` until it is replaced or removed. */
type Version = Omit<Plan, 'when'> & { timing: Timing; fromMs: number; untilMs: number; isPaused: boolean };

class History {
  readonly device: CoreDevice;
  readonly versions = new Map<string, Version[]>();
  /** Commands of runs that a user asked for: they end no due time. */
  readonly asideIds = new Set<string>();
  latestMs: number;
  readonly #checked = new Set<string>();
  #isDisabled = false;
  #mayOperate = true;

  constructor(startMs: number) {
    this.device = new CoreDevice(startMs);
    this.latestMs = startMs;
    this.device.isAuthorValid = true;
    this.device.connect();
    this.device.run({ kind: 'member_joined', ...operator, role: 'operator', invitedBy: owner.userId });
  }

  put(scheduleId: string, { when, ...plan }: Plan): void {
    const fromMs = this.device.nowMs;
    const timing = typeof when === 'number' ? once(fromMs + when * hourMs) : when;
    const settings = { ...plan, graceSeconds: plan.command === pulse ? 10 : plan.graceSeconds };
    const former = this.#current(scheduleId);
    const actor = plan.isByOperator ? inPerson(operator.userId) : owner;
    if (!this.device.schedule(scheduleId, timing, settings, actor).ok) return;
    if (former !== undefined) former.untilMs = fromMs;
    const version = { ...settings, timing, fromMs, untilMs: Infinity, isPaused: false };
    this.versions.set(scheduleId, [...(this.versions.get(scheduleId) ?? []), version]);
  }

  step({ does, isAfterDue, waitMs, index, plan, restarts }: Step): void {
    const { device } = this;
    const startsAtMs = device.state.schedules.flatMap(({ next }) => (next === null ? [] : [next.startAtMs]));
    const fromMs = isAfterDue && startsAtMs.length > 0 ? Math.max(device.nowMs, Math.min(...startsAtMs)) : device.nowMs;
    const untilMs = Math.max(device.nowMs, fromMs + waitMs);
    const before = this.#pressing();
    if (does === 'late alarm' || does === 'lost alarm') device.nowMs = untilMs;
    else device.waitUntil(untilMs);
    this.#check(before);
    this.latestMs = Math.max(this.latestMs, device.nowMs);
    // Users act when the clock is right again.
    if ((users as readonly string[]).includes(does)) device.nowMs = this.latestMs;
    device.isDying = does === 'death';
    this.#do(does, `s${index}`, index, plan);
    device.isDying = false;
    this.#check(new Set([...before, ...this.#pressing()]));
    if (does === 'clock back') device.nowMs -= waitMs % (5 * minuteMs);
    if (restarts) device.sleep();
  }

  /** The minute's job finds its due time in D1. */
  wake(): void {
    const { version } = this.device.state.sharing;
    this.device.run({ kind: 'record_compared', projectionVersion: -1, membersVersion: version });
  }

  #do(does: Step['does'], scheduleId: string, index: number, plan: Plan): void {
    const { device } = this;
    const current = this.#current(scheduleId);
    if (['alarm', 'two alarms', 'late alarm', 'death'].includes(does)) device.fireAlarm();
    if (does === 'two alarms') device.run({ kind: 'alarm_fired', scheduledAtMs: device.nowMs });
    if (does === 'woken') this.wake();
    if (does === 'leave' || does === 'reconnect') device.disconnect();
    if (does === 'connect' || does === 'reconnect') device.connect();
    if (does === 'press') device.request({ params: up, ttlSeconds: index < 2 ? undefined : 300 });
    if (does === 'broker') device.hasBroker = !device.hasBroker;
    if (does === 'account') device.isAuthorValid = [true, false, undefined][index % 3];
    if (does === 'put') this.put(scheduleId, plan);
    if (does === 'reply') device.reply(index === 3 ? 500 : 200);
    if (does === 'report') device.report(index < 2 ? 'up' : 'down');
    if (does === 'demote' || does === 'promote') {
      this.#mayOperate = does === 'promote';
      const role = this.#mayOperate ? 'operator' : 'viewer';
      device.run({ kind: 'member_changed', actor: owner, ...operator, role });
    }
    if (does === 'disable' || does === 'enable') {
      this.#isDisabled = does === 'disable';
      device.setDisabled(this.#isDisabled);
      if (!this.#isDisabled) device.connect();
    }
    if (does === 'run') {
      const outcome = device.run({ kind: 'schedule_run', actor: owner, scheduleId });
      if (outcome.ok && outcome.value.commandId !== null) this.asideIds.add(outcome.value.commandId);
    }
    if ((does === 'pause' || does === 'resume' || does === 'remove') && current !== undefined) {
      device.changeSchedule(scheduleId, does);
      if (does === 'remove') current.untilMs = device.nowMs;
      else current.isPaused = does === 'pause';
      if (does === 'resume') current.isByOperator = false;
    }
  }

  #current(scheduleId: string): Version | undefined {
    return this.versions.get(scheduleId)?.find(({ untilMs }) => untilMs === Infinity);
  }

  /** The schedules that may press now. */
  #pressing(): Set<string> {
    const mayPress = (version: Version | undefined) =>
      version !== undefined && !version.isPaused && !this.#isDisabled && (!version.isByOperator || this.#mayOperate);
    return new Set([...this.versions.keys()].filter((scheduleId) => mayPress(this.#current(scheduleId))));
  }

  #check(mayPress: ReadonlySet<string>): void {
    for (const { commandId, scheduleId } of this.device.commands()) {
      if (scheduleId === undefined || this.#checked.has(commandId) || this.asideIds.has(commandId)) continue;
      this.#checked.add(commandId);
      expect([...mayPress]).toContain(scheduleId);
    }
  }
}

const histories = fc.record({
  startMs: fc.constantFrom(...starts),
  first: fc.array(plans, { minLength: 1, maxLength: 4 }),
  all: fc.array(steps, { maxLength: 60, size: 'max' }),
});

it('each due time has one outcome, whatever happens, and nothing is pressed beyond its grace or twice', () => {
  fc.assert(
    fc.property(histories, ({ startMs, first, all }) => {
      const history = new History(startMs);
      const { device, versions, asideIds } = history;
      for (const [index, plan] of first.entries()) history.put(`s${index}`, plan);
      for (const step of all) history.step(step);
      // The minute's job wakes it, whatever became of its alarm.
      device.nowMs = history.latestMs;
      history.wake();
      const settledMs = device.nowMs;
      device.wait(20 * minuteMs);

      const expected = new Map<string, Version & { dueAtMs: number; skip: string | null; isSettled: boolean }>();
      for (const [scheduleId, version] of [...versions].flatMap(([id, list]) =>
        list.map((each) => [id, each] as const),
      )) {
        const { timing, fromMs, untilMs, jitterSeconds } = version;
        for (let due = nextDue(timing, fromMs); due !== null; due = nextDue(timing, due.dueAtMs)) {
          if (due.dueAtMs > Math.min(untilMs, device.nowMs)) break;
          const isSettled = untilMs < Infinity || due.dueAtMs + jitterSeconds * secondMs <= settledMs;
          expected.set(`${scheduleId}:${due.dueAtMs}`, { ...version, ...due, isSettled });
        }
      }
      const runs = [
        ...device.runs,
        ...device.state.runs.running.map((run) => ({ ...run, outcome: null, reason: null })),
      ];
      const own = runs.filter(({ commandId }) => commandId === null || !asideIds.has(commandId));
      const ids = own.map(({ scheduleId, dueAtMs }) => `${scheduleId}:${dueAtMs}`);
      expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
      expect(ids.filter((id) => !expected.has(id))).toEqual([]);
      expect([...expected].filter(([id, { isSettled }]) => isSettled && !ids.includes(id))).toEqual([]);

      const commands = new Map(device.commands().map((command) => [command.commandId, command]));
      for (const [index, { commandId, outcome, reason }] of own.entries()) {
        const { dueAtMs, skip, jitterSeconds, graceSeconds } = expected.get(ids[index]!)!;
        if (skip !== null && reason !== 'replaced')
          expect([outcome, reason, commandId]).toEqual(['skipped', skip, null]);
        if (outcome === null) expect(dueAtMs).toBeGreaterThan(settledMs - hourMs);
        if (commandId === null) continue;
        const { acceptedAtMs, brokerAcknowledgedAtMs, expiresAtMs } = commands.get(commandId)!;
        const lastMs = dueAtMs + (jitterSeconds + graceSeconds) * secondMs;
        expect(acceptedAtMs).toBeGreaterThanOrEqual(dueAtMs);
        expect(Math.max(acceptedAtMs, brokerAcknowledgedAtMs ?? 0)).toBeLessThan(expiresAtMs);
        expect(expiresAtMs).toBeLessThanOrEqual(lastMs);
      }
      const ofSchedules = [...commands.values()].filter(({ scheduleId }) => scheduleId !== undefined);
      const named = runs.flatMap(({ commandId }) => commandId ?? []);
      expect(ofSchedules.map(({ commandId }) => commandId).sort()).toEqual(named.sort());
      for (const effect of device.effects) {
        const command = effect.kind === 'publish_command' ? commands.get(effect.commandId) : undefined;
        if (effect.kind !== 'publish_command' || command?.scheduleId === undefined) continue;
        expect(effect.messageExpirySeconds).toBeGreaterThan(0);
        // The broker has to have it by then, and keeps it for a session so much longer.
        expect(effect.expiresAtMs + effect.messageExpirySeconds * secondMs).toBeLessThanOrEqual(command.expiresAtMs);
      }
      const momentary = device.sent.filter(({ params }) => params['action'] === 'pulse');
      expect(new Set(momentary.map(({ id }) => id)).size).toBe(momentary.length);
    }),
    { seed: fuzzSeed, numRuns: 100 },
  );
});
