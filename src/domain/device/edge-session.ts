// Slice: the device's MQTT session at the edge, in its own object. Knows that there is one and since when; the connection
// itself is domain/edge and its socket. Whatever a socket cannot tell any more is settled by `checkEdgeSession`.
import type { EdgeEndReason } from '../../protocol/vocabulary.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import { topicOf } from '../topics.ts';
import { admitMessage } from './coalescing.ts';
import { liveGenerations } from './credentials.ts';
import type { Effect } from './effects.ts';
import { readMessage } from './messages.ts';
import { applyPresence, recordTransition } from './presence.ts';
import { planRecordCheck } from './record-check.ts';
import type { DeviceState, EdgeSlice } from './state.ts';

/** Times `edgeWatchSeconds`. */
const longestWatch = 3;

export const noEdgeSession: EdgeSlice = { session: null, isLast: false, checkAtMs: null };

/** What the socket of the open session knows. */
export type OpenSession = { startedAtMs: number; lastPacketAtMs: number; silentFromMs: number };

/** `will`: of the session that is over, where its end lets it be published. */
export type EdgeSessionEnd = { startedAtMs: number; reason: EdgeEndReason; will: string | null; endedAtMs: number };

/** Of a login that was accepted. @param takenOver the session that it ends, where its socket is still there */
export function beginEdgeSession(
  state: DeviceState,
  takenOver: { will: string | null } | null,
  nowMs: number,
  effects: Effect[],
): { state: DeviceState; startedAtMs: number } {
  const { connection } = state.presence;
  const earlier = [connection.sessionStartedAtMs, connection.endedSessionStartedAtMs, connection.unnamedEndAtMs];
  const startedAtMs = Math.max(nowMs, ...earlier.map((atMs) => (atMs ?? 0) + 1));
  const wasOnline = connection.isOnline;
  const replaced = state.edge.session === null ? '' : takenOver === null ? 'deployed' : 'taken_over';
  let next = publishWill(state, takenOver?.will ?? null, nowMs, effects);
  const checkAtMs = nowMs + watchMs(state, 0);
  next = { ...next, edge: { session: { startedAtMs, lostAtMs: null }, isLast: true, checkAtMs } };
  next = applyPresence(next, { kind: 'connected', sessionStartedAtMs: startedAtMs }, nowMs, effects).state;
  if (wasOnline && replaced !== '') {
    const entry = { status: 'online', reason: 'connected', detail: replaced, time: nowMs } as const;
    next = recordTransition(next, entry, nowMs);
  }
  return { state: planRecordCheck(next, nowMs), startedAtMs };
}

export function endEdgeSession(
  state: DeviceState,
  { startedAtMs, reason, will, endedAtMs }: EdgeSessionEnd,
  nowMs: number,
  effects: Effect[],
): DeviceState {
  if (state.edge.session?.startedAtMs !== startedAtMs) return state;
  const told = reason === 'clean' ? state : publishWill(state, will, nowMs, effects);
  const ended = { ...told, edge: { ...state.edge, session: null, checkAtMs: null } };
  const isEvidence = reason !== 'keep_alive' && reason !== 'deployed';
  return applyPresence(ended, { kind: 'edge_ended', endedAtMs, reason, isEvidence }, nowMs, effects).state;
}

/** The service ends the session, if there is one: without its will, because the service says what is true now. */
export function closeEdgeSession(
  state: DeviceState,
  reason: EdgeEndReason,
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const { session } = state.edge;
  if (session === null) return state;
  effects.push({ kind: 'end_edge_session', reason });
  const { startedAtMs } = session;
  return endEdgeSession(state, { startedAtMs, reason, will: null, endedAtMs: nowMs }, nowMs, effects);
}

/** The credentials of its session have ended. */
export function revokeEdgeSession(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  endSocket(state, effects);
  const ended = { ...state, edge: { ...state.edge, session: null } };
  return applyPresence(ended, { kind: 'revoked' }, nowMs, effects).state;
}

/** The presence that follows is the caller's. */
export function endSocket(state: DeviceState, effects: Effect[]): void {
  if (state.edge.session !== null) effects.push({ kind: 'end_edge_session', reason: 'revoked' });
}

/** A session began at a broker: whatever is left of the one here is over. */
export function leaveEdge(state: DeviceState, effects: Effect[]): DeviceState {
  if (!state.edge.isLast) return state;
  if (state.edge.session !== null) effects.push({ kind: 'end_edge_session', reason: 'taken_over' });
  return { ...state, edge: noEdgeSession };
}

/** Compares what is stored with the socket that is there: at each wake, and whenever somebody asks. */
export function checkEdgeSession(
  state: DeviceState,
  open: OpenSession | null,
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const { session } = state.edge;
  if (session === null) return state;
  const { startedAtMs } = session;
  const { connection } = state.presence;
  if (open?.startedAtMs !== startedAtMs) return checkLost(state, nowMs, effects);
  if (open.silentFromMs <= nowMs) {
    effects.push({ kind: 'end_edge_session', reason: 'keep_alive' });
    const seen = withLastOnline(state, open.lastPacketAtMs);
    const end = { startedAtMs, reason: 'keep_alive', will: null, endedAtMs: open.lastPacketAtMs } as const;
    return endEdgeSession(seen, end, nowMs, effects);
  }
  const isDue = (state.edge.checkAtMs ?? 0) <= nowMs;
  const checkAtMs = nowMs + watchMs(state, nowMs - startedAtMs);
  const watched = isDue ? { ...state, edge: { ...state.edge, checkAtMs } } : state;
  return connection.isOnline ? withLastOnline(watched, open.lastPacketAtMs) : watched;
}

/** When the object has to look, though nobody asks. */
export function edgeDueAtMs({ edge, settings }: DeviceState): number {
  if (edge.session === null) return Infinity;
  const { lostAtMs } = edge.session;
  return lostAtMs === null ? (edge.checkAtMs ?? Infinity) : lostAtMs + graceMs(settings);
}

export function isEdgeWorthSaving(saved: EdgeSlice, present: EdgeSlice): boolean {
  return saved.session !== present.session || saved.isLast !== present.isLast;
}

/** All sockets are lost at a deployment, and the devices come back within seconds: until then they count as online. */
function checkLost(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const { session } = state.edge;
  if (session === null) return state;
  const lostAtMs = session.lostAtMs ?? nowMs;
  if (lostAtMs + graceMs(state.settings) > nowMs) {
    if (session.lostAtMs !== null) return state;
    return { ...state, edge: { ...state.edge, session: { ...session, lostAtMs }, checkAtMs: null } };
  }
  const endedAtMs = state.presence.connection.lastOnlineAtMs ?? nowMs;
  const { startedAtMs } = session;
  return endEdgeSession(state, { startedAtMs, reason: 'deployed', will: null, endedAtMs }, nowMs, effects);
}

/** Before the presence that follows from the session's end, so that the service announces what the will does not. */
function publishWill(state: DeviceState, will: string | null, nowMs: number, effects: Effect[]): DeviceState {
  const admitted = will === null ? undefined : admitMessage(state, nowMs);
  if (will === null || admitted === undefined) return state;
  const topic = topicOf(state.identity, topicActions.status);
  const { subscriptions, credentials, presence } = admitted;
  const generations = liveGenerations(credentials, nowMs);
  effects.push({ kind: 'push', topic, payload: will, subscriptions, generations });
  const meaning = readMessage(topicActions.status, will);
  if (meaning.kind !== 'status') return admitted;
  return {
    ...admitted,
    presence: { ...presence, connection: { ...presence.connection, lastAnnounced: meaning.status } },
  };
}

function withLastOnline(state: DeviceState, atMs: number): DeviceState {
  const { presence } = state;
  if (atMs <= (presence.connection.lastOnlineAtMs ?? 0)) return state;
  return { ...state, presence: { ...presence, connection: { ...presence.connection, lastOnlineAtMs: atMs } } };
}

/** A session that has lasted is looked at less often: each look is an alarm, which costs more than the reports in between. */
function watchMs({ settings }: DeviceState, lastedMs: number): number {
  const leastMs = settings.limits.edgeWatchSeconds * 1000;
  return Math.min(Math.max(leastMs, lastedMs), longestWatch * leastMs);
}

function graceMs({ limits }: DeviceState['settings']): number {
  return limits.edgeReconnectGraceSeconds * 1000;
}
