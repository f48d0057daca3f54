// Slice: whether D1 still has the device's record. After a restore of D1 it may lack it, and the device would keep
// credentials that its owner can neither see nor delete. D1 is asked at most once a day, some time after the device came
// or went; only two answers hours apart that there is no record end the device.
import type { Effect } from './effects.ts';
import { fingerprint } from './fingerprint.ts';
import { markProjectionBehind } from './projection.ts';
import type { DeviceState, RecordCheckSlice } from './state.ts';

const hourMs = 3_600_000;
const confirmEveryMs = 24 * hourMs;
/** Devices that all come at once ask one after the other. */
const askWithinMs = hourMs;
const askAgainAfterMs = hourMs;
const endAfterMs = 6 * hourMs;

export const noRecordCheck: RecordCheckSlice = {
  confirmedAtMs: 0,
  missingSinceMs: null,
  dueAtMs: null,
  askAgainAtMs: null,
};

/** The device came, or an alarm fired, as it does after the device went. */
export function planRecordCheck(state: DeviceState, nowMs: number): DeviceState {
  const { confirmedAtMs, dueAtMs } = state.recordCheck;
  if (dueAtMs !== null || nowMs - confirmedAtMs < confirmEveryMs) return state;
  const spread = fingerprint(state.identity.deviceId) / 2 ** 53;
  return withCheck(state, { dueAtMs: nowMs + Math.ceil(askWithinMs * spread) });
}

export function askWhereDue(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  if (recordCheckDueAtMs(state) > nowMs) return state;
  effects.push({ kind: 'check_record', productKey: state.identity.productKey });
  return withCheck(state, { askAgainAtMs: nowMs + askAgainAfterMs });
}

/** What the primary of D1 answered; it was no answer where it did not know the device's product either. */
export function noteRecord(state: DeviceState, isThere: boolean, nowMs: number): DeviceState | 'deleted' {
  if (isThere) return { ...state, recordCheck: { ...noRecordCheck, confirmedAtMs: nowMs } };
  const missingSinceMs = state.recordCheck.missingSinceMs ?? nowMs;
  const endsAtMs = missingSinceMs + endAfterMs;
  if (nowMs >= endsAtMs) return 'deleted';
  return withCheck(state, { missingSinceMs, dueAtMs: endsAtMs, askAgainAtMs: null });
}

export function recordCheckDueAtMs({ recordCheck: { dueAtMs, askAgainAtMs } }: DeviceState): number {
  return dueAtMs === null ? Infinity : Math.max(dueAtMs, askAgainAtMs ?? 0);
}

/** That D1 is being asked is not worth a row: without its answer the alarm asks again. */
export function isRecordCheckWorthSaving(saved: RecordCheckSlice, check: RecordCheckSlice): boolean {
  return (['confirmedAtMs', 'missingSinceMs', 'dueAtMs'] as const).some((name) => saved[name] !== check[name]);
}

/** Writes the projection again where D1 has another one: either side may have been restored. */
export function compareProjection(state: DeviceState, versionInD1: number): DeviceState {
  const { projectionVersion, isProjectionBehind } = state.presence;
  if (versionInD1 === projectionVersion || (isProjectionBehind && versionInD1 < projectionVersion)) return state;
  const presence = { ...state.presence, projectionVersion: Math.max(projectionVersion, versionInD1) };
  // At once: how many are compared is bounded already.
  const behind = markProjectionBehind({ ...state, presence }, true);
  return { ...behind, ownership: { ...behind.ownership, ownerVersion: behind.presence.projectionVersion } };
}

function withCheck(state: DeviceState, change: Partial<RecordCheckSlice>): DeviceState {
  return { ...state, recordCheck: { ...state.recordCheck, ...change } };
}
