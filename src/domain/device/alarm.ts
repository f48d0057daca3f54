// Slice: the one alarm of a device, at the earliest time that a slice names. Where inactivity is watched the alarm is also
// the record of the device's last message, because moving it costs one row and a row of its own another.
import { inactivityDueAtMs, silenceAllowedMs } from './connection.ts';
import { commandsDueAtMs } from './commands.ts';
import { nextEndMs } from './credentials.ts';
import { edgeDueAtMs } from './edge-session.ts';
import { presenceDueAtMs, resolutionOf, rulesOf } from './presence.ts';
import { projectionDueAtMs } from './projection.ts';
import { recordCheckDueAtMs } from './record-check.ts';
import { sharingDueAtMs } from './sharing.ts';
import type { AlarmSlice, DeviceState } from './state.ts';

export const noAlarm: AlarmSlice = { setAtMs: null, isForInactivity: false };

/** The state as it was loaded, with the time of the last message where the alarm records it. */
export function adoptAlarm(state: DeviceState, setAtMs: number | null, nowMs: number): DeviceState {
  const adopted = { ...state, alarm: { ...state.alarm, setAtMs } };
  const { connection } = state.presence;
  if (setAtMs === null || !state.alarm.isForInactivity || !connection.isOnline) return adopted;
  const seenAtMs = Math.min(setAtMs - silenceAllowedMs(connection, rulesOf(state, nowMs)), nowMs);
  if (seenAtMs <= (connection.lastOnlineAtMs ?? 0)) return adopted;
  const seen = { ...connection, lastOnlineAtMs: seenAtMs };
  return { ...adopted, presence: { ...state.presence, connection: seen } };
}

/**
 * Leaves an alarm that fires too early: deleting it writes a row, an idle wake-up does not. An alarm that records the
 * last message moves on when it is behind by the resolution of that record.
 */
export function planAlarm(state: DeviceState, nowMs: number): DeviceState {
  const { setAtMs, isForInactivity } = state.alarm;
  const inactiveAtMs = inactivityDueAtMs(state.presence.connection, rulesOf(state, nowMs)) ?? Infinity;
  const otherAtMs = otherDueAtMs(state, nowMs);
  const dueAtMs = Math.min(inactiveAtMs, otherAtMs);
  if (dueAtMs === Infinity) return state;
  const willBeForInactivity = inactiveAtMs <= otherAtMs;
  const isEarlier = setAtMs === null || setAtMs > dueAtMs;
  const isBehind = willBeForInactivity && isForInactivity && inactiveAtMs - (setAtMs ?? 0) >= resolutionOf(state);
  if (!isEarlier && !isBehind) return state;
  return { ...state, alarm: { setAtMs: dueAtMs, isForInactivity: willBeForInactivity } };
}

/** Whether the alarm in storage records the last message, so that the message needs no row. */
export function isRecordedByAlarm(state: DeviceState, nowMs: number): boolean {
  const inactiveAtMs = inactivityDueAtMs(state.presence.connection, rulesOf(state, nowMs));
  if (inactiveAtMs === null) return true;
  return inactiveAtMs <= otherDueAtMs(state, nowMs) && state.alarm.isForInactivity;
}

/** When something other than inactivity is due. */
function otherDueAtMs(state: DeviceState, nowMs: number): number {
  return Math.min(
    presenceDueAtMs(state),
    projectionDueAtMs(state),
    commandsDueAtMs(state, nowMs),
    recordCheckDueAtMs(state),
    sharingDueAtMs(state),
    // Where no relay shard listens nothing has to be ended: a login finds the time by itself.
    state.subscriptions.length > 0 ? nextEndMs(state.credentials) : Infinity,
    edgeDueAtMs(state),
    state.coalesced.dueAtMs ?? Infinity,
  );
}
