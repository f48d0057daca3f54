// Slice: the copy of the device in D1. One write is under way at a time, beside one that the owner waits for. Writes keep
// a distance, and what D1 did not take is tried again later and later, spread so that not all devices come back at once.
// An alarm stands behind each step.
import { isActivated } from './credentials.ts';
import type { Effect, Projection } from './effects.ts';
import { fingerprint } from './fingerprint.ts';
import type { DeviceState, ProjectionSlice } from './state.ts';

/** `retryAfterMs`: D1 was not asked, because others are before this device. */
export type ProjectionOutcome = 'written' | 'failed' | { retryAfterMs: number };

const lostAfterMs = 30_000;
const firstBackOffMs = 2_000;
const maxBackOffMs = 300_000;

export const noProjection: ProjectionSlice = {
  isUrgent: false,
  startedAtMs: 0,
  nextAtMs: 0,
  failures: 0,
};

/** D1 is behind; the write starts at the end of the decision, once for all changes of it. */
export function markProjectionBehind(state: DeviceState, isUrgent = false): DeviceState {
  const { presence, projection } = state;
  return {
    ...state,
    presence: { ...presence, projectionVersion: presence.projectionVersion + 1, isProjectionBehind: true },
    projection: isUrgent ? { ...projection, isUrgent } : projection,
  };
}

/** Starts a write where one is due. */
export function planProjection(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const { projection, presence } = state;
  if (!presence.isProjectionBehind) return state;
  if (!projection.isUrgent && nowMs < projection.nextAtMs) return state;
  effects.push({ kind: 'write_projection', projection: projectionOf(state), isUrgent: projection.isUrgent });
  const nextAtMs = nowMs + lostAfterMs * (1 + spreadOf(state));
  return { ...state, projection: { ...projection, isUrgent: false, startedAtMs: nowMs, nextAtMs } };
}

/** A write that a newer change overtook was not the last one. */
export function noteProjectionEnd(
  state: DeviceState,
  { version, outcome }: { version: number; outcome: ProjectionOutcome },
  nowMs: number,
): DeviceState {
  const { projection, presence, settings } = state;
  if (outcome === 'failed') {
    const backOffMs = Math.min(firstBackOffMs * 2 ** projection.failures, maxBackOffMs) * (0.5 + spreadOf(state));
    return { ...state, projection: { ...projection, failures: projection.failures + 1, nextAtMs: nowMs + backOffMs } };
  }
  if (outcome !== 'written') return { ...state, projection: { ...projection, nextAtMs: nowMs + outcome.retryAfterMs } };
  const nextAtMs = projection.startedAtMs + 60_000 / settings.limits.deviceProjectionsPerMinute;
  const isProjectionBehind = presence.isProjectionBehind && version !== presence.projectionVersion;
  const { ownership } = state;
  const knowsOwner = ownership.ownerVersion !== null && version >= ownership.ownerVersion;
  return {
    ...state,
    ownership: knowsOwner ? { ...ownership, ownerVersion: null } : ownership,
    presence: { ...presence, isProjectionBehind },
    projection: { ...projection, failures: 0, nextAtMs },
  };
}

/** A whole millisecond, at which alarms fire. */
export function projectionDueAtMs({ presence, projection }: DeviceState): number {
  return presence.isProjectionBehind ? Math.ceil(projection.nextAtMs) : Infinity;
}

function projectionOf({ identity, ownership, presence, credentials }: DeviceState): Projection {
  const { isOnline, lastOnlineAtMs } = presence.connection;
  return {
    version: presence.projectionVersion,
    name: identity.name,
    isDisabled: identity.isDisabled,
    connectionStatus: isOnline ? 1 : isActivated(credentials) ? 2 : 0,
    lastOnlineAt: lastOnlineAtMs,
    owner: ownership.ownerVersion === null ? null : { ownerId: identity.ownerId, claimedAt: identity.claimedAtMs },
  };
}

/** From 0 to 1, another one for each device and try. */
function spreadOf({ identity, presence, projection }: DeviceState): number {
  return fingerprint(`${identity.deviceId} ${presence.projectionVersion} ${projection.failures}`) / 2 ** 53;
}
