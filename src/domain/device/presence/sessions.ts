// Slice: the device's direct MQTT session: that there is one and since when. And the sessions of the device at all: what an accepted
// login begins, here, at a broker or at a relay shard, a session's packets and its end, what a broker reports of it, and its loss with a
// deployment. The connection itself is domain/direct and its socket. Decides nothing about messages and commands.
import type { Slice, DeviceState } from '../core/state.ts';
import { topicActions } from '../../../protocol/mqtt.ts';
import type { DirectEndReason } from '../../direct/answer-codes.ts';
import { accept } from '../../refusal.ts';
import { applyDelivery, applyReturn } from '../commands/commands.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import type { MessageRejectionReason } from '../../../protocol/vocabulary.ts';
import { countRejection } from '../core/counts.ts';
import { admitMessage } from '../messages/coalescing.ts';
import { takeDirectMessages } from '../messages/inbox.ts';
import { addSubscription, pushMessage } from '../messages/subscriptions.ts';
import { readMessage } from '../messages/messages.ts';
import * as credentials from '../ownership/credentials.ts';
import { readersOf } from '../ownership/sharing.ts';
import { applyPresence, recordTransition, withConnection } from './announcements.ts';
import { planRecordCheck } from './projection.ts';
import { presenceTimes } from './presence-times.ts';

export type DirectSlice = {
  session: {
    startedAtMs: number;
    /** Since when its socket is gone without an end: after a deployment, or the end of a process. */
    lostAtMs: number | null;
  } | null;
  isLast: boolean;
  /** Memory only: when somebody looks whether the device is still there. */
  checkAtMs: number | null;
};

export const directSlice: Slice<DirectSlice> = {
  initial: { session: null, isLast: false, checkAtMs: null },
  row: 'activity',
  read: (saved) => ({ ...saved, checkAtMs: null }),
  isWorthSaving: ({ direct: saved }, { direct }) => saved.session !== direct.session || saved.isLast !== direct.isLast,
  // When the object has to look, though nobody asks.
  dueAtMs: ({ direct: { session, checkAtMs }, settings }) => {
    if (session === null) return Infinity;
    return session.lostAtMs === null
      ? (checkAtMs ?? Infinity)
      : session.lostAtMs + presenceTimes.directReconnectMs(settings.limits);
  },
  onNewOwner: 'keep',
  onMove: 'stay',
};

export type OpenSession = { startedAtMs: number; lastPacketAtMs: number; silentFromMs: number };

/** `will`: of the session that is over, if its end lets the will be published. */
export type DirectSessionEnd = {
  startedAtMs: number;
  reason: DirectEndReason;
  /** Of the publish that ended it. */
  topic?: string | undefined;
  will: string | null;
  endedAtMs: number;
};

/** The ends that a publish causes, as what became of it. */
const rejectionByEnd: Partial<Record<DirectEndReason, MessageRejectionReason>> = {
  topic_forbidden: 'wrong_topic',
  topic_invalid: 'wrong_topic',
  topic_alias_invalid: 'wrong_topic',
  retain_not_supported: 'retained',
  qos_not_supported: 'qos_not_supported',
  packet_too_large: 'too_large',
};

export function endDirectSession(
  state: DeviceState,
  { startedAtMs, reason, topic = '', will, endedAtMs }: DirectSessionEnd,
  decision: Decision,
): DeviceState {
  if (state.direct.session?.startedAtMs !== startedAtMs) return state;
  const rejection = rejectionByEnd[reason];
  const noted = rejection ? countRejection(state, { reason: rejection, topic }, decision.nowMs) : state;
  const told = reason === 'clean' ? noted : publishWill(noted, will, decision);
  const ended = { ...told, direct: { ...state.direct, session: null, checkAtMs: null } };
  const isEvidence = reason !== 'keep_alive' && reason !== 'deployed';
  return applyPresence(ended, { kind: 'direct_ended', endedAtMs, reason, isEvidence }, decision).state;
}

/** The service ends the session, if there is one: without its will, because the service says what is true now. */
export function closeDirectSession(state: DeviceState, reason: DirectEndReason, decision: Decision): DeviceState {
  const { session } = state.direct;
  if (session === null) return state;
  decision.effects.push({ kind: 'end_direct_session', reason });
  const { startedAtMs } = session;
  return endDirectSession(state, { startedAtMs, reason, will: null, endedAtMs: decision.nowMs }, decision);
}

export function revokeDirectSession(state: DeviceState, decision: Decision): DeviceState {
  endSocket(state, decision);
  const ended = { ...state, direct: { ...state.direct, session: null } };
  return applyPresence(ended, { kind: 'revoked' }, decision).state;
}

/** Closes the socket. The caller applies the presence that follows. */
export function endSocket(state: DeviceState, { effects }: Decision): void {
  if (state.direct.session !== null) effects.push({ kind: 'end_direct_session', reason: 'revoked' });
}

/** A session began at a broker: the direct session is over. */
function leaveDirect(state: DeviceState, { effects }: Decision): DeviceState {
  if (!state.direct.isLast) return state;
  if (state.direct.session !== null) effects.push({ kind: 'end_direct_session', reason: 'taken_over' });
  return { ...state, direct: directSlice.initial };
}

/** Compares what is stored with the socket that is there: at each wake, and whenever somebody asks. */
export function checkDirectSession(state: DeviceState, open: OpenSession | null, decision: Decision): DeviceState {
  const { nowMs } = decision;
  const { session } = state.direct;
  if (session === null) return state;
  const { startedAtMs } = session;
  const { connection } = state.presence;
  if (open?.startedAtMs !== startedAtMs) return checkLost(state, session, decision);
  if (open.silentFromMs <= nowMs) {
    decision.effects.push({ kind: 'end_direct_session', reason: 'keep_alive' });
    const seen = withLastOnline(state, open.lastPacketAtMs);
    const end = { startedAtMs, reason: 'keep_alive', will: null, endedAtMs: open.lastPacketAtMs } as const;
    return endDirectSession(seen, end, decision);
  }
  const isDue = (state.direct.checkAtMs ?? 0) <= nowMs;
  const checkAtMs = nowMs + presenceTimes.directCheckMs(state.settings.limits, nowMs - startedAtMs);
  const watched = isDue ? { ...state, direct: { ...state.direct, checkAtMs } } : state;
  return connection.isOnline ? withLastOnline(watched, open.lastPacketAtMs) : watched;
}

/** All sockets are lost at a deployment, and the devices come back within seconds: until then they count as online. */
function checkLost(state: DeviceState, session: NonNullable<DirectSlice['session']>, decision: Decision): DeviceState {
  const { nowMs } = decision;
  const lostAtMs = session.lostAtMs ?? nowMs;
  if (lostAtMs + presenceTimes.directReconnectMs(state.settings.limits) > nowMs) {
    if (session.lostAtMs !== null) return state;
    return { ...state, direct: { ...state.direct, session: { ...session, lostAtMs }, checkAtMs: null } };
  }
  const endedAtMs = state.presence.connection.lastOnlineAtMs ?? nowMs;
  const { startedAtMs } = session;
  return endDirectSession(state, { startedAtMs, reason: 'deployed', will: null, endedAtMs }, decision);
}

/** Before the presence that follows from the session's end, so that the service announces what the will does not. */
function publishWill(state: DeviceState, will: string | null, decision: Decision): DeviceState {
  const admitted = will === null ? undefined : admitMessage(state, decision.nowMs);
  if (will === null || admitted === undefined) return state;
  pushMessage(admitted, topicActions.status, will, decision);
  const meaning = readMessage(topicActions.status, will);
  return meaning.kind === 'status' ? withConnection(admitted, { lastAnnounced: meaning.status }) : admitted;
}

function withLastOnline(state: DeviceState, atMs: number): DeviceState {
  const { lastOnlineAtMs } = state.presence.connection;
  return atMs <= (lastOnlineAtMs ?? 0) ? state : withConnection(state, { lastOnlineAtMs: atMs });
}

export const connectDirectly: Handler<'direct_connected'> = (state, event, decision) => {
  const { nowMs } = decision;
  const refused = credentials.refuseLogin(state, event, nowMs);
  if (refused !== undefined) return refused;
  const { takenOver } = event;
  const { connection } = state.presence;
  const earlier = [connection.sessionStartedAtMs, connection.endedSessionStartedAtMs, connection.unnamedEndAtMs];
  const startedAtMs = Math.max(nowMs, ...earlier.map((atMs) => (atMs ?? 0) + 1));
  const replaced = state.direct.session === null ? '' : takenOver === null ? 'deployed' : 'taken_over';
  const loggedIn = credentials.noteSessionLogin(state, event.matchedDigest ?? '', event.address, nowMs);
  let next = publishWill(loggedIn, takenOver?.will ?? null, decision);
  const checkAtMs = nowMs + presenceTimes.directCheckMs(state.settings.limits, 0);
  next = { ...next, direct: { session: { startedAtMs, lostAtMs: null }, isLast: true, checkAtMs } };
  next = applyPresence(next, { kind: 'connected', sessionStartedAtMs: startedAtMs }, decision).state;
  if (connection.isOnline && replaced !== '') {
    const entry = { status: 'online', reason: 'connected', detail: replaced, time: nowMs } as const;
    next = recordTransition(next, entry, nowMs);
  }
  return { state: planRecordCheck(next, nowMs), result: accept({ startedAtMs }) };
};

export const takeDirectPackets: Handler<'direct_packets_received'> = (
  state,
  { startedAtMs, messages, delivered, hasSubscribed, end },
  decision,
) => {
  const generations = credentials.liveGenerations(state.credentials, decision.nowMs);
  // Another session has begun, or the credentials have ended.
  if (state.direct.session?.startedAtMs !== startedAtMs) {
    const reason = 'session_revoked' as const;
    const results = messages.map(() => ({ result: 'rejected', reason }) as const);
    const count = (next: DeviceState, topic: string) => countRejection(next, { reason, topic }, decision.nowMs);
    const counted = messages.map(({ action }) => action).reduce(count, state);
    return { state: counted, result: { results, subscriptions: [], generations, readers: [] } };
  }
  // A device acknowledges a command before it replies to it.
  const heard = delivered.reduce((before, commandId) => applyDelivery(before, commandId, decision.nowMs), state);
  const applied = takeDirectMessages(heard, messages, decision);
  let next = applied.state;
  if (hasSubscribed) next = applyReturn(next, decision);
  if (end !== null) next = endDirectSession(next, end, decision);
  return {
    state: next,
    result: { results: applied.results, subscriptions: next.subscriptions, generations, readers: readersOf(next) },
  };
};

export const logIn: Handler<'login_attempted'> = (state, event, decision) => {
  const { nowMs } = decision;
  const refused = credentials.refuseLogin(state, event, nowMs);
  if (refused !== undefined) return refused;
  const digest = event.matchedDigest ?? '';
  const next =
    event.relayShard === undefined
      ? beginAtBroker(state, digest, event.address, decision)
      : credentials.closeWindow(registerShard(state, digest, event.relayShard, nowMs), digest, event.address, nowMs);
  const generation = credentials.passwordOf(next.credentials, digest)?.generation ?? 0;
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
  const loggedIn = credentials.noteSessionLogin(state, digest, address, decision.nowMs);
  // If the broker reports connections, that report ends a direct session.
  const next = state.settings.reportsConnections ? loggedIn : leaveDirect(loggedIn, decision);
  return planRecordCheck(applyPresenceAndReturn(next, { kind: 'authenticated' }, decision), decision.nowMs);
}

function registerShard(state: DeviceState, digest: string, shard: string, nowMs: number): DeviceState {
  const used = credentials.noteUse(state.credentials, digest, nowMs);
  // What the device's own socket will subscribe to is not known here.
  const subscriptions = addSubscription(state.subscriptions, shard, false, nowMs);
  return { ...state, credentials: used, subscriptions };
}

function applyPresenceAndReturn(
  state: DeviceState,
  event: Parameters<typeof applyPresence>[1],
  decision: Decision,
): DeviceState {
  const applied = applyPresence(state, event, decision);
  return applied.hasReturned ? applyReturn(applied.state, decision) : applied.state;
}
