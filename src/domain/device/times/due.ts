// What happens when a due time has come: a schedule's command is given by its author, or the ledger says why not; a lease sends
// what takes its command back. In the decision that writes it, so that a repeated alarm finds nothing due.
import { leaseId, mayRepeat, type Command } from '../commands/command-life.ts';
import { giveCommand, refuseCommand, shortestLifeMs, sourceOf } from '../commands/commands.ts';
import type { Decision, Handler } from '../core/events.ts';
import type { DeviceState } from '../core/state.ts';
import { inPerson } from '../../access.ts';
import { accept, refused } from '../../refusal.ts';
import { minuteMs, secondMs } from '../../time.ts';
import { refuseUnless } from '../ownership/sharing.ts';
import { leaseDueAtMs, noteAttempt, settleLost } from './lease.ts';
import { beginRun, maxRunning, runSize, viewRun, type Run } from './ledger.ts';
import { advance, endDue, findSchedule, firstOf, noSchedule, pauseOf, startOf, type Schedule } from './schedules.ts';

/** Later than this, no alarm of the platform is late: nothing ran the device. */
const watchedAfterMs = 2 * minuteMs;
/** Of each attempt to end a lease: the next one is another command. */
const attemptLifeMs = 10 * secondMs;

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
