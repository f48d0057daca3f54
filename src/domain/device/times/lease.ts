// Slice: a lease, "on for 30 minutes": a command with the command that takes it back. The latter is pursued until it is known
// to have happened. A newer command, or a hand at the device, ends the pursuit. Sends nothing: see schedules.ts.
import type { LeaseView } from '../../../protocol/http/times.ts';
import type { ControlParams } from '../../control-command.ts';
import { accept, refuse } from '../../refusal.ts';
import { hourMs, minuteMs, secondMs, toIso } from '../../time.ts';
import { leaseId, visibleResult, type Command } from '../commands/command-life.ts';
import type { PropertyReport } from '../messages/properties.ts';
import type { Handler } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { appendRun, type Run } from './ledger.ts';

export type LeaseRequest = { seconds: number; then: ControlParams };

type Lease = LeaseRequest &
  Pick<Command, 'commandId' | 'number' | 'params'> & {
    giver: Pick<Command, 'givenBy' | 'keyId'>;
    endsAtMs: number;
    /** How often `then` was sent, last as `lastCommandId`. */
    attempts: number;
    lastCommandId: string | null;
    /** Grows with each attempt; starts anew when the device comes back. */
    pauses: number;
    nextAttemptAtMs: number;
  };

type LeaseSlice = {
  current: Lease | null;
  /** Commands that the broker has not answered for: once it has such a command, the lease is `next`. */
  pending: readonly { commandId: string; number: number; next: Lease | null }[];
};

const pausesMs = [10 * secondMs, 30 * secondMs, minuteMs, 2 * minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs];
/** A device that comes back may report a hand that moved it: that comes before the next attempt. */
const afterReturnMs = 3 * secondMs;

export const leaseSlice: Slice<LeaseSlice> = {
  initial: { current: null, pending: [] },
  row: 'own',
  dueAtMs: (state) => leaseDueAtMs(state),
  onNewOwner: 'forget',
};

/** An attempt waits for the end of other publications, and for the device if it was away at the last. */
export function leaseDueAtMs({ lease, commands, presence }: DeviceState): number {
  const { current } = lease;
  if (current === null || commands.inFlight.length > 0) return Infinity;
  return current.attempts > 0 && !presence.connection.isOnline ? Infinity : current.nextAttemptAtMs;
}

/** A command goes to the broker. Only if the broker gets it, it ends the lease or begins its own. */
export function holdLease(state: DeviceState, command: Command, request: LeaseRequest | undefined, nowMs: number) {
  const { lease } = state;
  if (command.scheduleId === leaseId) return state;
  if (lease.current === null && lease.pending.length === 0 && request === undefined) return state;
  const { commandId, number } = command;
  // Sent again: the lease that it began, or a newer one, goes on.
  if (lease.current !== null && number <= lease.current.number) return state;
  const next = request === undefined ? null : leaseOf(command, request, nowMs);
  const others = lease.pending.filter((other) => other.commandId !== commandId);
  return withLease(state, { pending: [...others, { commandId, number, next }] });
}

function leaseOf({ commandId, number, params, givenBy, keyId }: Command, request: LeaseRequest, nowMs: number): Lease {
  const endsAtMs = nowMs + request.seconds * 1000;
  const giver = { ...(givenBy && { givenBy }), ...(keyId !== undefined && { keyId }) };
  const progress = { attempts: 0, lastCommandId: null, pauses: 0, nextAttemptAtMs: endsAtMs };
  return { ...request, commandId, number, params, giver, endsAtMs, ...progress };
}

/** @param isTaken false if the broker certainly has not got the command */
export function releaseLease(state: DeviceState, command: Command, isTaken: boolean): DeviceState {
  const { pending } = state.lease;
  const own = pending.find(({ commandId }) => commandId === command.commandId);
  if (own === undefined) return state;
  if (!isTaken) return withLease(state, { pending: pending.filter((other) => other !== own) });
  const later = pending.filter(({ number }) => number > own.number);
  return withLease(endLease(state, replaced), { current: own.next, pending: later });
}

/** The object was lost with a publication: the broker may have the command, which is newer than the lease. */
export function settleLost(state: DeviceState): DeviceState {
  const { pending } = state.lease;
  const newest = pending.at(-1);
  const isUnderWay = state.commands.inFlight.some(({ commandId }) => commandId === newest?.commandId);
  return newest === undefined || isUnderWay
    ? state
    : withLease(endLease(state, replaced), { current: newest.next, pending: [] });
}

export function noteAttempt(state: DeviceState, commandId: string | null, nowMs: number): DeviceState {
  const { current } = state.lease;
  if (current === null) return state;
  const pauseMs = pausesMs[Math.min(current.pauses, pausesMs.length - 1)] ?? hourMs;
  const attempt = { attempts: current.attempts + 1, lastCommandId: commandId ?? current.lastCommandId };
  const times = { pauses: current.pauses + 1, nextAttemptAtMs: nowMs + pauseMs };
  return withLease(state, { current: { ...current, ...attempt, ...times } });
}

export function noteReturn(state: DeviceState, nowMs: number): DeviceState {
  const { current } = state.lease;
  if (current === null || current.attempts === 0) return state;
  return withLease(state, { current: { ...current, pauses: 0, nextAttemptAtMs: nowMs + afterReturnMs } });
}

/** A report that shows the end, or a position that no command explains: then a hand moved the device. */
export function noteReported(state: DeviceState, { reported, changed }: PropertyReport, nowMs: number): DeviceState {
  const { current } = state.lease;
  if (current === null) return state;
  const [name = '', wanted] = visibleResult(current.then) ?? [];
  if (current.attempts > 0 && reported.get(name) === wanted) return endLease(state, confirmed);
  const isUnexplained = changed.has(name) && changed.get(name) !== visibleResult(current.params)?.[1];
  const isUnderWay = state.commands.loaded.some(
    ({ acceptedAtMs, expiresAtMs, confirmedAtMs }) =>
      nowMs >= acceptedAtMs && nowMs < expiresAtMs && confirmedAtMs === null,
  );
  return isUnexplained && !isUnderWay ? endLease(state, replaced) : state;
}

/** The reply is the last word of a device that has never reported what would show the result. */
export function noteReplied(state: DeviceState, commandId: string, isSuccess: boolean): DeviceState {
  const { current } = state.lease;
  if (current === null || current.lastCommandId !== commandId || !isSuccess) return state;
  const [name] = visibleResult(current.then) ?? [];
  const isReporting = state.properties.values.some(([valueName]) => valueName === name);
  return isReporting ? state : endLease(state, { outcome: 'acknowledged', reason: null });
}

export const revokeLease: Handler<'lease_ended'> = (state) => {
  const { current, pending } = state.lease;
  if (current === null && pending.length === 0) return { state, result: refuse({ kind: 'not_found', what: 'lease' }) };
  return { state: withLease(endLease(state, replaced), { pending: [] }), result: accept(null) };
};

const confirmed = { outcome: 'confirmed', reason: null } as const;
const replaced = { outcome: 'skipped', reason: 'replaced' } as const;

/** Its end is a due time: if that has come, it ends as a run. */
function endLease(state: DeviceState, end: Pick<Run, 'outcome' | 'reason'>): DeviceState {
  const { current } = state.lease;
  if (current === null) return state;
  const ended = withLease(state, { current: null });
  if (current.attempts === 0) return ended;
  const { endsAtMs: dueAtMs, lastCommandId: commandId } = current;
  return appendRun(ended, { scheduleId: leaseId, name: '', dueAtMs, commandId, ...end });
}

export function viewLease(state: DeviceState): LeaseView | undefined {
  const { current } = state.lease;
  if (current === null) return undefined;
  const { then, endsAtMs, attempts, commandId, lastCommandId } = current;
  const dueAtMs = leaseDueAtMs(state);
  const times = { endsAt: toIso(endsAtMs), nextAttemptAt: dueAtMs === Infinity ? null : toIso(dueAtMs) };
  return { state: attempts === 0 ? 'running' : 'pursuing', then, attempts, commandId, lastCommandId, ...times };
}

function withLease(state: DeviceState, change: Partial<LeaseSlice>): DeviceState {
  return { ...state, lease: { ...state.lease, ...change } };
}
