// Slice: the copy of the device in D1. One write is under way at a time, writes keep a distance, and what D1 did not take
// is tried again later and later, spread so that not all devices come back at once. An alarm stands behind each step.
import type { Effect, Projection } from './effects.ts';
import { fingerprint } from './fingerprint.ts';
import type { DeviceState, ProjectionSlice } from './state.ts';

/** `retryAfterMs`: D1 was not asked, because others are before this device. */
export type ProjectionOutcome = 'written' | 'failed' | { retryAfterMs: number };

const lostAfterMs = 30_000;
const firstBackOffMs = 2_000;
const maxBackOffMs = 300_000;

export const noProjection: ProjectionSlice = {
  isUnderWay: false,
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
  const isWaiting = projection.isUnderWay || !projection.isUrgent;
  if (isWaiting && nowMs < projection.nextAtMs) return state;
  effects.push({ kind: 'write_projection', projection: projectionOf(state), isUrgent: projection.isUrgent });
  const nextAtMs = nowMs + Math.ceil(lostAfterMs * (1 + spreadOf(state)));
  return { ...state, projection: { ...projection, isUnderWay: true, isUrgent: false, startedAtMs: nowMs, nextAtMs } };
}

/** A write that a newer change overtook was not the last one. */
export function noteProjectionEnd(
  state: DeviceState,
  { version, outcome }: { version: number; outcome: ProjectionOutcome },
  nowMs: number,
): DeviceState {
  const { projection, presence, settings } = state;
  const ended = { ...projection, isUnderWay: false };
  if (outcome === 'failed') {
    const backOffMs = Math.min(firstBackOffMs * 2 ** projection.failures, maxBackOffMs) * (0.5 + spreadOf(state));
    return { ...state, projection: { ...ended, failures: projection.failures + 1, nextAtMs: nowMs + backOffMs } };
  }
  if (outcome !== 'written') return { ...state, projection: { ...ended, nextAtMs: nowMs + outcome.retryAfterMs } };
  const nextAtMs = projection.startedAtMs + 60_000 / settings.limits.deviceProjectionsPerMinute;
  const isProjectionBehind = version !== presence.projectionVersion;
  return { ...state, presence: { ...presence, isProjectionBehind }, projection: { ...ended, failures: 0, nextAtMs } };
}

export function projectionDueAtMs({ presence, projection }: DeviceState): number {
  return presence.isProjectionBehind ? projection.nextAtMs : Infinity;
}

function projectionOf({ identity, presence }: DeviceState): Projection {
  const { isOnline, lastOnlineAtMs } = presence.connection;
  return {
    version: presence.projectionVersion,
    name: identity.name,
    isDisabled: identity.isDisabled,
    connectionStatus: isOnline ? 1 : 2,
    lastOnlineAt: lastOnlineAtMs,
  };
}

/** From 0 to 1, another one for each device and try. */
function spreadOf({ identity, presence, projection }: DeviceState): number {
  return fingerprint(`${identity.deviceId} ${presence.projectionVersion} ${projection.failures}`) / 2 ** 53;
}
