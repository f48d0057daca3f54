// What the device's MQTT connection at the edge brings: its login, and the packets of one wake-up, which are one decision.
// The rules of the session itself are edge-session.ts, those of messages and commands their own slices.
import { refuse } from '../refusal.ts';
import { applyDelivery, applyReturn } from './commands.ts';
import { liveGenerations } from './credentials.ts';
import { beginEdgeSession, endEdgeSession } from './edge-session.ts';
import type { Effect } from './effects.ts';
import type { EventOf, Handled } from './events.ts';
import { takeEdgeMessages } from './inbox.ts';
import { noteRefusal, noteSessionLogin, refuseLogin } from './login.ts';
import { readersOf } from './sharing.ts';
import type { DeviceState } from './state.ts';

export function connectAtEdge(
  state: DeviceState,
  event: EventOf<'edge_connected'>,
  nowMs: number,
  effects: Effect[],
): Handled<'edge_connected'> {
  const refusal = refuseLogin(state, event, nowMs);
  if (refusal !== undefined) {
    return { state: noteRefusal(state, refusal, event.address, nowMs), result: refuse(refusal) };
  }
  const loggedIn = noteSessionLogin(state, event.matchedDigest ?? '', event.address, nowMs);
  const begun = beginEdgeSession(loggedIn, event.takenOver, nowMs, effects);
  return { state: begun.state, result: { ok: true, value: { startedAtMs: begun.startedAtMs } } };
}

export function takeEdgePackets(
  state: DeviceState,
  { startedAtMs, messages, delivered, hasSubscribed, end }: EventOf<'edge_packets_received'>,
  nowMs: number,
  effects: Effect[],
): Handled<'edge_packets_received'> {
  const generations = liveGenerations(state.credentials, nowMs);
  // Another session has begun, or the credentials have ended.
  if (state.edge.session?.startedAtMs !== startedAtMs) {
    const results = messages.map(() => ({ result: 'rejected', reason: 'session_revoked' }) as const);
    return { state, result: { results, subscriptions: [], generations, readers: [] } };
  }
  // A device acknowledges a command before it replies to it.
  const heard = delivered.reduce((before, commandId) => applyDelivery(before, commandId, nowMs), state);
  const taken = takeEdgeMessages(heard, messages, nowMs, effects);
  let next = taken.state;
  if (hasSubscribed) next = applyReturn(next, nowMs, effects);
  if (end !== null) next = endEdgeSession(next, end, nowMs, effects);
  return {
    state: next,
    result: { results: taken.results, subscriptions: next.subscriptions, generations, readers: readersOf(next) },
  };
}
