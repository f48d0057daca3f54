// Relay sessions that were opened with the device's own credentials: they end with these, whatever ended them. Shards that
// cannot be told learn it from the generations that each push carries.
import type { RevokeCause } from '../revoke-cause.ts';
import { dropEnded, liveGenerations, nextEndMs } from './credentials.ts';
import type { Effect } from './effects.ts';
import type { DeviceState } from './state.ts';

/** Those of credentials that are not valid any more: all of them where the device is disabled or deleted. */
export function endRelaySessions(state: DeviceState, cause: RevokeCause, nowMs: number, effects: Effect[]): void {
  const generations = cause === 'credentials rotated' ? liveGenerations(state.credentials, nowMs) : [];
  const shards = state.subscriptions.map(({ shard }) => shard);
  effects.push({ kind: 'end_relay_sessions', cause, shards, generations });
}

/** A password that has ended by time ends the relay sessions that were opened with it. */
export function endOutdated(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  if (nextEndMs(state.credentials) > nowMs) return state;
  const next = { ...state, credentials: dropEnded(state.credentials, nowMs) };
  endRelaySessions(next, 'credentials rotated', nowMs, effects);
  return next;
}
