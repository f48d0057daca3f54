// The device's session at a broker, and its login at a relay shard: what an accepted login begins, and what the broker reports
// of the connection. A direct session is direct-session.ts.
import { accept } from '../../refusal.ts';
import { applyReturn } from '../commands/commands.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import type { DeviceState } from '../core/state.ts';
import { closeWindow, noteSessionLogin, noteUse, passwordOf, refuseLogin } from '../ownership/credentials.ts';
import { addSubscription } from '../messages/subscriptions.ts';
import { applyPresence } from './announcements.ts';
import { leaveDirect } from './direct-session.ts';
import { planRecordCheck } from './projection.ts';

export const logIn: Handler<'login_attempted'> = (state, event, decision) => {
  const { nowMs } = decision;
  const refused = refuseLogin(state, event, nowMs);
  if (refused !== undefined) return refused;
  const digest = event.matchedDigest ?? '';
  const next =
    event.relayShard === undefined
      ? beginAtBroker(state, digest, event.address, decision)
      : closeWindow(registerShard(state, digest, event.relayShard, nowMs), digest, event.address, nowMs);
  const generation = passwordOf(next.credentials, digest)?.generation ?? 0;
  const { productKey, deviceId } = next.identity;
  return { state: next, result: accept({ productKey, deviceId, generation }) };
};

export const noteConnection: Reporter<'connection_reported'> = (state, { report }, decision) => {
  if (report.kind !== 'connected') {
    // What a broker knows of the device's earlier sessions says nothing about the one here.
    if (state.direct.session !== null) return state;
    return applyPresenceAndReturn(state, report, decision);
  }
  const isOverHere = state.direct.session === null || report.sessionStartedAtMs > state.direct.session.startedAtMs;
  // A revoked session may still end, but none may begin without a login.
  if (state.credentials.isAwaitingLogin || !isOverHere) return state;
  const next = applyPresenceAndReturn(leaveDirect(state, decision), report, decision);
  return planRecordCheck(next, decision.nowMs);
};

function beginAtBroker(state: DeviceState, digest: string, address: string | null, decision: Decision): DeviceState {
  const loggedIn = noteSessionLogin(state, digest, address, decision.nowMs);
  // If the broker reports connections, that report ends a direct session.
  const next = state.settings.reportsConnections ? loggedIn : leaveDirect(loggedIn, decision);
  return planRecordCheck(applyPresenceAndReturn(next, { kind: 'authenticated' }, decision), decision.nowMs);
}

function registerShard(state: DeviceState, digest: string, shard: string, nowMs: number): DeviceState {
  const credentials = noteUse(state.credentials, digest, nowMs);
  // What the device's own socket will subscribe to is not known here.
  return { ...state, credentials, subscriptions: addSubscription(state.subscriptions, shard, false, nowMs) };
}

function applyPresenceAndReturn(
  state: DeviceState,
  event: Parameters<typeof applyPresence>[1],
  decision: Decision,
): DeviceState {
  const applied = applyPresence(state, event, decision);
  return applied.hasReturned ? applyReturn(applied.state, decision) : applied.state;
}
