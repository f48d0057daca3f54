// Slices: the projection of the device in D1, and whether D1 still has the device's record. Writes keep a distance; a failed
// write is tried again later and later, spread over the devices. D1 is asked for the record at most once a day, after the
// device came or went; two answers hours apart that there is none end the device. An alarm stands behind each step.
import { dayMs, hourMs, minuteMs } from '../../time.ts';
import type { Slice, DeviceState } from '../core/state.ts';
import { fingerprint } from '../../fingerprint.ts';
import type { Decision, Projection, Reporter } from '../core/events.ts';
import { isActivated } from '../ownership/credentials.ts';
import { startOf } from '../times/schedules.ts';

/** Memory only: `isProjectionBehind` of the presence slice is what outlives the object. */
export type ProjectionSlice = {
  /** The owner waits for it: the next write starts at once. */
  isUrgent: boolean;
  startedAtMs: number;
  /** No write starts before; while one is under way, when it counts as lost. */
  nextAtMs: number;
  failures: number;
};

export type RecordCheckSlice = {
  confirmedAtMs: number;
  missingSinceMs: number | null;
  dueAtMs: number | null;
  /** Memory only: D1 was asked, and is asked again at this time if it does not answer. */
  askAgainAtMs: number | null;
};

/** `retryAfterMs`: D1 was not asked, because others are before this device. */
export type ProjectionOutcome = 'written' | 'failed' | { retryAfterMs: number };

const lostAfterMs = 30_000;
export const projectionsPerMinute = 30;
const firstBackOffMs = 2_000;
const maxBackOffMs = 300_000;

export const projectionSlice: Slice<ProjectionSlice> = {
  initial: { isUrgent: false, startedAtMs: 0, nextAtMs: 0, failures: 0 },
  row: 'none',
  // A whole millisecond, at which alarms fire.
  dueAtMs: ({ presence, projection }) => (presence.isProjectionBehind ? Math.ceil(projection.nextAtMs) : Infinity),
  onNewOwner: 'keep',
};

export const recordCheckSlice: Slice<RecordCheckSlice> = {
  initial: { confirmedAtMs: 0, missingSinceMs: null, dueAtMs: null, askAgainAtMs: null },
  row: 'administration',
  read: (saved) => ({ ...saved, askAgainAtMs: null }),
  // That D1 is being asked is not worth a row: without its answer the alarm asks again.
  isWorthSaving: ({ recordCheck: saved }, { recordCheck }) =>
    (['confirmedAtMs', 'missingSinceMs', 'dueAtMs'] as const).some((name) => saved[name] !== recordCheck[name]),
  dueAtMs: ({ recordCheck }) => checkDueAtMs(recordCheck),
  onNewOwner: 'keep',
};

function checkDueAtMs({ dueAtMs, askAgainAtMs }: RecordCheckSlice): number {
  return dueAtMs === null ? Infinity : Math.max(dueAtMs, askAgainAtMs ?? 0);
}

/** D1 is behind; the write starts at the end of the decision, once for all changes of it. */
export function markProjectionBehind(state: DeviceState, isUrgent = false): DeviceState {
  const { presence, projection } = state;
  return {
    ...state,
    presence: { ...presence, projectionVersion: presence.projectionVersion + 1, isProjectionBehind: true },
    projection: isUrgent ? { ...projection, isUrgent } : projection,
  };
}

/**
 * D1 has the next due time, so that the minute's job notices a lost alarm. Of a later one it is told once: if that is lost, the
 * job wakes the device for the former, and the device tells it again.
 */
export function tellNextDue(before: DeviceState, state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  const [formerAtMs, dueAtMs] = [before, state].map(dueAtOf) as [number | null, number | null];
  if (formerAtMs === dueAtMs) return state;
  const { presence, projection } = state;
  const behind = markProjectionBehind(state);
  const isLater = formerAtMs !== null && (dueAtMs ?? Infinity) > formerAtMs;
  if (!isLater || presence.isProjectionBehind || nowMs < projection.nextAtMs) return behind;
  effects.push({ kind: 'write_projection', projection: projectionOf(behind), isUrgent: false, mayBeLost: true });
  return {
    ...behind,
    presence: { ...behind.presence, isProjectionBehind: false },
    projection: { ...projection, nextAtMs: nowMs + minuteMs / projectionsPerMinute },
  };
}

function dueAtOf({ schedules, lease: { current } }: DeviceState): number | null {
  const leaseEndsAtMs = current?.attempts === 0 ? current.endsAtMs : Infinity;
  const earliestMs = Math.min(leaseEndsAtMs, ...schedules.map(startOf));
  return earliestMs === Infinity ? null : earliestMs;
}

/** D1 is told of the owner with the next projection, at once. */
export function markOwnerChanged(state: DeviceState): DeviceState {
  const behind = markProjectionBehind(state, true);
  return { ...behind, ownership: { ...behind.ownership, ownerVersion: behind.presence.projectionVersion } };
}

export function planProjection(state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  const { projection, presence } = state;
  if (!presence.isProjectionBehind) return state;
  if (!projection.isUrgent && nowMs < projection.nextAtMs) return state;
  effects.push({
    kind: 'write_projection',
    projection: projectionOf(state),
    isUrgent: projection.isUrgent,
    mayBeLost: false,
  });
  const nextAtMs = nowMs + lostAfterMs * (1 + spreadOf(state));
  return { ...state, projection: { ...projection, isUrgent: false, startedAtMs: nowMs, nextAtMs } };
}

/** If a newer change overtook the write, the projection stays behind. */
export const noteProjectionEnd: Reporter<'projection_ended'> = (state, { version, outcome }, { nowMs }) => {
  const { projection, presence } = state;
  if (outcome !== 'written') {
    const isProjectionBehind = presence.isProjectionBehind || version === presence.projectionVersion;
    const behind = { ...state, presence: { ...presence, isProjectionBehind } };
    if (outcome !== 'failed')
      return { ...behind, projection: { ...projection, nextAtMs: nowMs + outcome.retryAfterMs } };
    const backOffMs = Math.min(firstBackOffMs * 2 ** projection.failures, maxBackOffMs) * (0.5 + spreadOf(state));
    return { ...behind, projection: { ...projection, failures: projection.failures + 1, nextAtMs: nowMs + backOffMs } };
  }
  const nextAtMs = projection.startedAtMs + minuteMs / projectionsPerMinute;
  const isProjectionBehind = presence.isProjectionBehind && version !== presence.projectionVersion;
  const { ownership, usage } = state;
  const knowsUsage = usage.toldVersion !== null && version >= usage.toldVersion;
  const knowsOwner = ownership.ownerVersion !== null && version >= ownership.ownerVersion;
  return {
    ...state,
    usage: knowsUsage ? { ...usage, untold: [], toldVersion: null } : usage,
    ownership: knowsOwner ? { ...ownership, ownerVersion: null } : ownership,
    presence: { ...presence, isProjectionBehind },
    projection: { ...projection, failures: 0, nextAtMs },
  };
};

function projectionOf(state: DeviceState): Projection {
  const { identity, ownership, presence, credentials } = state;
  const { isOnline, lastOnlineAtMs } = presence.connection;
  return {
    version: presence.projectionVersion,
    name: identity.name,
    isDisabled: identity.isDisabled,
    connectionStatus: isOnline ? 1 : isActivated(credentials) ? 2 : 0,
    lastOnlineAt: lastOnlineAtMs,
    owner: ownership.ownerVersion === null ? null : { ownerId: identity.ownerId, claimedAt: identity.claimedAtMs },
    dueAt: dueAtOf(state),
    usage: state.usage.untold,
  };
}

/** From 0 to 1, another number for each device and try. */
function spreadOf({ identity, presence, projection }: DeviceState): number {
  return fingerprint(`${identity.deviceId} ${presence.projectionVersion} ${projection.failures}`) / 2 ** 53;
}

const confirmEveryMs = dayMs;
/** Devices that all come at once ask one after the other. */
const askWithinMs = hourMs;
const askAgainAfterMs = hourMs;
const endAfterMs = 6 * hourMs;

/** The device came, or an alarm fired, as it does after the device went. */
export function planRecordCheck(state: DeviceState, nowMs: number): DeviceState {
  const { confirmedAtMs, dueAtMs } = state.recordCheck;
  if (dueAtMs !== null || nowMs - confirmedAtMs < confirmEveryMs) return state;
  const spread = fingerprint(state.identity.deviceId) / 2 ** 53;
  return withCheck(state, { dueAtMs: nowMs + Math.ceil(askWithinMs * spread) });
}

export function askWhereDue(state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  if (checkDueAtMs(state.recordCheck) > nowMs) return state;
  effects.push({ kind: 'check_record', productKey: state.identity.productKey });
  return withCheck(state, { askAgainAtMs: nowMs + askAgainAfterMs });
}

/** What the primary of D1 answered. If it did not know the device's product either, that was no answer. */
export function noteRecord(state: DeviceState, isThere: boolean, nowMs: number): DeviceState | 'deleted' {
  if (isThere) return { ...state, recordCheck: { ...recordCheckSlice.initial, confirmedAtMs: nowMs } };
  const missingSinceMs = state.recordCheck.missingSinceMs ?? nowMs;
  const endsAtMs = missingSinceMs + endAfterMs;
  if (nowMs >= endsAtMs) return 'deleted';
  return withCheck(state, { missingSinceMs, dueAtMs: endsAtMs, askAgainAtMs: null });
}

/** Writes the projection again if D1 has another version: either side may have been restored. */
export function compareProjection(state: DeviceState, versionInD1: number): DeviceState {
  const { projectionVersion, isProjectionBehind } = state.presence;
  if (versionInD1 === projectionVersion || (isProjectionBehind && versionInD1 < projectionVersion)) return state;
  const presence = { ...state.presence, projectionVersion: Math.max(projectionVersion, versionInD1) };
  // At once: how many are compared is bounded already.
  return markOwnerChanged({ ...state, presence });
}

function withCheck(state: DeviceState, change: Partial<RecordCheckSlice>): DeviceState {
  return { ...state, recordCheck: { ...state.recordCheck, ...change } };
}
