// Slice: the schedules of a device: made, replaced, paused and removed by its owner and operators. The next due time follows from
// the last entry of the ledger, never from the clock, so that a late or lost alarm leaves no hole. When it has come, the author's command
// is given, or the ledger says why not; a lease sends what takes its command back. In the decision that writes it, so that a repeated
// alarm finds nothing due.
import type { DueView, ScheduleSettings, ScheduleView } from '../../../protocol/http/times.ts';
import type { PauseReason } from '../../../protocol/vocabulary.ts';
import { inPerson, seesSharing, type Actor } from '../../access.ts';
import type { ControlParams } from '../../control-command.ts';
import { fingerprint } from '../../fingerprint.ts';
import { accept, refused, type Refusal } from '../../refusal.ts';
import { minuteMs, secondMs, toIso } from '../../time.ts';
import { leaseId, mayRepeat, type Command } from '../commands/command-life.ts';
import { giveCommand, refuseCommand, refuseControl, shortestLifeMs, sourceOf } from '../commands/commands.ts';
import type { Decision, Handler } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { refuseUnless } from '../ownership/sharing.ts';
import { isOnce, nextDue, type Due } from './calendar.ts';
import { leaseDueAtMs, noteAttempt, settleLost } from './lease.ts';
import { appendRun, beginRun, maxRunning, runSize, viewRun, type Run } from './ledger.ts';

export type ScheduleDraft = Omit<ScheduleSettings, 'command'> & { command: ControlParams };

/** `startAtMs`: with jitter. */
type NextRun = Due & { startAtMs: number };

export type Schedule = ScheduleDraft & {
  scheduleId: string;
  /** Made, replaced or resumed it last: its runs are given by this user. */
  author: Pick<Actor, 'userId' | 'keyId'>;
  pausedBecause: PauseReason | null;
  /** Null: no due time is left. */
  next: NextRun | null;
};

const recurring = { name: 'schedulesPerDevice', max: 32 } as const;
const oneShots = { name: 'oneShotsPerDevice', max: 8 } as const;
/** Later than this, no alarm of the platform is late: nothing ran the device. */
const watchedAfterMs = 2 * minuteMs;
/** Of each attempt to end a lease: the next one is another command. */
const attemptLifeMs = 10 * secondMs;

export const schedulesSlice: Slice<readonly Schedule[]> = {
  initial: [],
  row: 'own',
  dueAtMs: (state) => Math.min(Infinity, ...state.schedules.map(startOf)),
  onNewOwner: 'forget',
};

export function startOf({ next }: Schedule): number {
  return next?.startAtMs ?? Infinity;
}

function firstOf({ schedules }: DeviceState, timeOf = startOf): Schedule | undefined {
  return schedules.toSorted((first, second) => timeOf(first) - timeOf(second))[0];
}

export const putSchedule: Handler<'schedule_put'> = (state, { actor, scheduleId, draft, isNew }, { nowMs }) => {
  const former = findSchedule(state, scheduleId);
  if (former === undefined && !isNew) return refused(state, noSchedule(scheduleId));
  const next = planNext(scheduleId, draft, nowMs);
  const open = state.schedules.filter((other) => other !== former && other.next !== null);
  const refusal = refuseControl(state) ?? (next === null ? neverComes : refuseMore(open, draft));
  if (refusal !== undefined) return refused(state, refusal);
  const { userId, keyId } = actor;
  const pausedBecause = draft.enabled ? null : ('user' as const);
  // A local date and time is turned into an instant once.
  const once = next !== null && isOnce(draft.at) ? { at: toIso(next.dueAtMs), zone: null } : {};
  const schedule = { ...draft, ...once, scheduleId, author: { userId, keyId }, pausedBecause, next };
  // Schedules without a due time stay until the next is made.
  const others = isNew ? open : state.schedules.filter((other) => other !== former);
  const put = { ...passOver(state, former, nowMs), schedules: [...others, schedule] };
  return { state: put, result: accept(viewSchedule(put, schedule, actor)) };
};

export const changeSchedule: Handler<'schedule_changed'> = (state, { actor, scheduleId, change }, { nowMs }) => {
  const former = findSchedule(state, scheduleId);
  if (former === undefined) return refused(state, noSchedule(scheduleId));
  if (change === 'remove') {
    const schedules = state.schedules.filter((other) => other !== former);
    return {
      state: { ...passOver(state, former, nowMs), schedules },
      result: accept(viewSchedule(state, former, actor)),
    };
  }
  const { userId, keyId } = actor;
  const resumed = { pausedBecause: null, author: { userId, keyId } };
  const changed = { ...former, ...(change === 'resume' ? resumed : { pausedBecause: 'user' as const }) };
  const next = withSchedule(state, changed);
  return { state: next, result: accept(viewSchedule(next, changed, actor)) };
};

/** The schedule goes on from its due time, which has its entry in the ledger. */
function advance(state: DeviceState, schedule: Schedule, change: Partial<Schedule> = {}): DeviceState {
  if (schedule.next === null) return state;
  const next = planNext(schedule.scheduleId, schedule, schedule.next.dueAtMs);
  return withSchedule(state, { ...schedule, ...change, next });
}

/** Its due time ends without a command. */
function endDue(state: DeviceState, schedule: Schedule, outcome: Run['outcome'], reason: Run['reason']) {
  const { scheduleId, name, next } = schedule;
  return next === null
    ? state
    : appendRun(state, { scheduleId, name, dueAtMs: next.dueAtMs, commandId: null, outcome, reason });
}

/** The oldest first, and no more at once than the ring keeps: the alarm goes on with the rest. */
export function runDue(state: DeviceState, decision: Decision): DeviceState {
  const { nowMs } = decision;
  let next = settleLost(state);
  for (let count = 0; count < runSize; count++) {
    const schedule = firstOf(next);
    const startAtMs = schedule === undefined ? Infinity : startOf(schedule);
    if (leaseDueAtMs(next) <= Math.min(nowMs, startAtMs)) next = pursueLease(next, decision);
    else if (schedule !== undefined && startAtMs <= nowMs) next = runSchedule(next, schedule, decision);
    else break;
  }
  // An alarm that has not come by now may be lost.
  const isLate = next !== state && next.alarm.setAtMs !== null && next.alarm.setAtMs <= nowMs;
  return isLate ? { ...next, alarm: { ...next.alarm, setAtMs: null } } : next;
}

function runSchedule(state: DeviceState, schedule: Schedule, decision: Decision): DeviceState {
  const { next: due, author, command } = schedule;
  const { nowMs } = decision;
  if (due === null) return state;
  const end = (outcome: Run['outcome'], reason: Run['reason'], change: Partial<Schedule> = {}) =>
    endDue(advance(state, schedule, change), schedule, outcome, reason);
  if (due.skip !== null) return end('skipped', due.skip);
  if (pauseOf(state, schedule) !== null) return end('skipped', 'paused');
  const expiresAtMs = due.startAtMs + schedule.graceSeconds * 1000;
  if (nowMs > expiresAtMs - shortestLifeMs) {
    return end('missed', nowMs < due.startAtMs + watchedAfterMs ? 'too_late' : 'service_down');
  }
  const refusal = refuseCommand(state);
  if (refusal !== undefined) return end('refused', refusal.kind);
  if (refuseUnless(state, inPerson(author.userId), 'control') !== undefined) {
    return end('refused', 'author_lost_right', { pausedBecause: 'author_lost_right' });
  }
  const mayWait = mayRepeat(command) && !state.arrival.isExpected;
  if (!mayWait && !state.presence.connection.isOnline) return end('missed', 'device_offline');
  const times = { dueAtMs: due.dueAtMs, expiresAtMs };
  return give(advance(state, schedule), schedule, sourceOf(author), times, decision).state;
}

function give(
  state: DeviceState,
  { scheduleId, name, command: params }: Schedule,
  giver: Pick<Command, 'givenBy' | 'keyId' | 'giverCheckedAtMs'>,
  { dueAtMs, expiresAtMs }: { dueAtMs: number; expiresAtMs: number },
  decision: Decision,
): { state: DeviceState; run: Run } {
  const fresh = decision.newCommand();
  const run = { scheduleId, name, dueAtMs, commandId: fresh.commandId };
  const next = giveCommand(beginRun(state, run), { ...fresh, params, ...giver, scheduleId }, expiresAtMs, decision);
  return { state: next, run: { ...run, outcome: 'running', reason: null } };
}

/** At any time, by the user who asks. */
export const runNow: Handler<'schedule_run'> = (state, { actor, scheduleId }, decision) => {
  const schedule = findSchedule(state, scheduleId);
  if (schedule === undefined) return refused(state, noSchedule(scheduleId));
  const refusal = refuseCommand(state);
  if (refusal !== undefined) return refused(state, refusal);
  const { nowMs } = decision;
  const open = state.runs.running.filter((run) => run.scheduleId === scheduleId);
  // A run is named by its due time.
  const dueAtMs = Math.max(nowMs, ...open.map((run) => run.dueAtMs + 1));
  const times = { dueAtMs, expiresAtMs: nowMs + schedule.graceSeconds * 1000 };
  if (state.runs.running.length >= maxRunning) {
    return refused(state, { kind: 'rate_limited', limit: 'runsByRequest', retryAfterSeconds: 10 });
  }
  const begun = give(state, schedule, { ...sourceOf(actor), giverCheckedAtMs: nowMs }, times, decision);
  return { state: begun.state, result: accept(viewRun(begun.run)) };
};

function pursueLease(state: DeviceState, decision: Decision): DeviceState {
  const { current } = state.lease;
  if (current === null) return state;
  const { nowMs } = decision;
  // A disabled device is tried again, too.
  if (refuseCommand(state) !== undefined) return noteAttempt(state, null, nowMs);
  const fresh = decision.newCommand();
  const attempted = noteAttempt(state, fresh.commandId, nowMs);
  const { then: params, giver } = current;
  const source = { ...fresh, params, ...giver, giverCheckedAtMs: nowMs, scheduleId: leaseId };
  return giveCommand(attempted, source, nowMs + attemptLifeMs, decision);
}

/** A due time whose jitter is not over when its schedule is replaced or removed. */
function passOver(state: DeviceState, former: Schedule | undefined, nowMs: number): DeviceState {
  const dueAtMs = former?.next?.dueAtMs ?? Infinity;
  return former === undefined || dueAtMs > nowMs ? state : endDue(state, former, 'skipped', 'replaced');
}

function planNext(scheduleId: string, draft: ScheduleDraft, afterMs: number): NextRun | null {
  const due = nextDue(draft, afterMs);
  if (due === null) return null;
  const spread = fingerprint(`${scheduleId} ${due.dueAtMs}`) / 2 ** 53;
  return { ...due, startAtMs: due.dueAtMs + Math.floor(draft.jitterSeconds * spread * 1000) };
}

export function viewDue({ dueAtMs, why, skip }: Due): DueView {
  return { dueAt: toIso(dueAtMs), why, skipped: skip };
}

/** The next due times of all schedules, the earliest first. */
export function listNext(state: DeviceState, count: number) {
  const list: DueView[] = [];
  for (let ahead = state; list.length < count;) {
    const first = firstOf(ahead, ({ next }) => next?.dueAtMs ?? Infinity);
    if (first === undefined || first.next === null) break;
    const skipped = first.next.skip ?? (pauseOf(state, first) === null ? null : 'paused');
    list.push({ scheduleId: first.scheduleId, ...viewDue(first.next), skipped });
    ahead = advance(ahead, first);
  }
  return list;
}

/** `userId` of the author is null for an actor without the right `readSharing`. */
export function viewSchedule(state: DeviceState, schedule: Schedule, actor: Actor): ScheduleView {
  const { author, next, ...rest } = schedule;
  const pausedBecause = pauseOf(state, schedule);
  const isShown = author.userId === actor.userId || seesSharing(state, actor);
  const shown = { userId: isShown ? author.userId : null, withKey: author.keyId !== null };
  const paused = { pausedBecause, enabled: pausedBecause !== 'user' };
  return { ...rest, ...paused, author: shown, nextDueAt: toIso(next?.dueAtMs ?? null), why: next?.why ?? null };
}

export function findSchedule({ schedules }: DeviceState, scheduleId: string): Schedule | undefined {
  return schedules.find((schedule) => schedule.scheduleId === scheduleId);
}

/** A disabled device runs none; it goes on when the device is enabled. */
function pauseOf({ identity }: DeviceState, { pausedBecause }: Schedule): PauseReason | null {
  return pausedBecause ?? (identity.isDisabled ? 'device_disabled' : null);
}

function noSchedule(id: string): Refusal {
  return { kind: 'not_found', what: 'schedule', id };
}

const neverComes: Refusal = { kind: 'invalid_input', path: 'at', problem: 'never comes' };

function refuseMore(open: readonly Schedule[], { at }: ScheduleDraft): Refusal | undefined {
  const alike = open.filter((other) => isOnce(other.at) === isOnce(at));
  const limit = isOnce(at) ? oneShots : recurring;
  return alike.length < limit.max ? undefined : { kind: 'limit_reached', limit };
}

function withSchedule(state: DeviceState, schedule: Schedule): DeviceState {
  const replace = (other: Schedule) => (other.scheduleId === schedule.scheduleId ? schedule : other);
  return { ...state, schedules: state.schedules.map(replace) };
}
