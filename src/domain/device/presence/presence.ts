// Whether a device is online: one state machine over all evidence of its connection. Times in events are the broker's for
// sessions and the bridge's for messages, never the device's. Being disabled only decides what subscribers are told.
import type { DirectEndReason } from '../../direct/answer-codes.ts';
import type { TransitionReason } from '../../../protocol/vocabulary.ts';
import { presenceTimes } from './presence-times.ts';

export const initialPresence = {
  isOnline: false,
  onlineSinceMs: null as number | null,
  /** The broker said that a session began and has not said that it ended. */
  isSessionOpen: false,
  /** Whether it has logged in more than once: the first session has none before it. */
  logins: 0 as 0 | 1 | 2,
  /** Start of the newest session by the broker's clock, which tells sessions apart. */
  sessionStartedAtMs: null as number | null,
  /** The newest session that is known to be over, by its start; or the last end that named no session. */
  endedSessionStartedAtMs: null as number | null,
  unnamedEndAtMs: null as number | null,
  /** Until then an offline announcement may be the last will of the session before. */
  oldWillUntilMs: null as number | null,
  /** When the device went offline and who reported it: messages sent before that do not bring it back. */
  offlineAtMs: null as number | null,
  offlineBy: null as 'broker' | 'device' | 'service' | null,
  lastOnlineAtMs: null as number | null,
  lastAnnounced: null as 'online' | 'offline' | null,
  /** When an offline announcement is due that is held back in case the device reconnects at once. */
  announceAtMs: null as number | null,
  /** The broker has forgotten its sessions: until then the device has to show that it is still there. */
  unconfirmedUntilMs: null as number | null,
};
export type PresenceState = typeof initialPresence;

export type PresenceEvent =
  | { kind: 'connected'; sessionStartedAtMs: number }
  /** A session ended. `sessionStartedAtMs` is null if the broker does not say which session. */
  | { kind: 'disconnected'; sessionStartedAtMs: number | null; endedAtMs: number; reason: string }
  /** What the broker said of sessions before `beforeMs` holds no more, unless evidence since then confirms it in time. */
  | { kind: 'doubted'; beforeMs: number; confirmWithinMs: number }
  /** The login was accepted: proof of a session only if the broker reports no connects. */
  | { kind: 'authenticated' }
  | { kind: 'announced'; status: 'online' | 'offline'; atMs: number }
  | { kind: 'message'; atMs: number }
  /** The direct session ended. `isEvidence`: until then the device was there. */
  | { kind: 'direct_ended'; endedAtMs: number; reason: DirectEndReason; isEvidence: boolean }
  | { kind: 'revoked' }
  | { kind: 'due' };

export type PresenceRules = {
  reportsConnections: boolean;
  inactivityTimeoutMs: number;
  /** How long a session is believed in that the broker reported, without any message: its end may have been lost. */
  sessionSilenceMs: number;
  offlineGraceMs: number;
  isDisabled: boolean;
  /** The service has announced too much in the last minute to announce anything before. */
  announceFromMs: number;
};

type PresenceTransition = { isOnline: boolean; reason: TransitionReason; detail: string; atMs: number };

export type PresenceOutcome = {
  state: PresenceState;
  transition: PresenceTransition | undefined;
  announce: 'online' | 'offline' | undefined;
  /** The device has come back, or reconnected while its old session still looked alive. */
  hasReturned: boolean;
};

type Move = { state: PresenceState; reason: TransitionReason; detail?: string; atMs: number; hasReturned?: boolean };

const { reorderingMs, oldWillMs, unknownFarewellMs } = presenceTimes;
/** A session that ended for one of these reasons was replaced by another of the same client: the device is still here. */
const takeoverReasons: readonly string[] = ['takenover', 'discarded', 'takeover'];

export function decidePresence(
  before: PresenceState,
  event: PresenceEvent,
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  const still: Move = { state: before, reason: 'silence', atMs: 0 };
  const move = applyEvent(before, event, rules, nowMs) ?? still;
  const { state, reason, detail = '', atMs, hasReturned = false } = move;
  const hasChanged = state.isOnline !== before.isOnline;
  const isHeldBack = hasChanged && reason === 'disconnected';
  const told = event.kind === 'announced' ? { ...state, lastAnnounced: event.status } : state;
  return {
    ...planAnnouncement(told, isHeldBack ? rules.offlineGraceMs : 0, rules, nowMs),
    transition: hasChanged ? { isOnline: state.isOnline, reason, detail, atMs: Math.min(atMs, nowMs) } : undefined,
    hasReturned: hasReturned || (hasChanged && state.isOnline),
  };
}

export function inactivityDueAtMs(state: PresenceState, rules: PresenceRules): number | null {
  return state.isOnline ? (state.lastOnlineAtMs ?? 0) + silenceAllowedMs(state, rules) : null;
}

/** A device that is online by its messages alone is watched closely: the broker's report of its end may be lost. */
export function silenceAllowedMs(state: PresenceState, rules: PresenceRules): number {
  return rules.reportsConnections && state.isSessionOpen ? rules.sessionSilenceMs : rules.inactivityTimeoutMs;
}

function applyEvent(state: PresenceState, event: PresenceEvent, rules: PresenceRules, nowMs: number): Move | undefined {
  switch (event.kind) {
    case 'connected':
      return beginSession(state, event.sessionStartedAtMs, 'connected', nowMs);
    case 'doubted':
      return doubt(state, event, rules, nowMs);
    case 'authenticated':
      return logIn(state, rules, nowMs);
    case 'disconnected':
      return endSession(state, event, nowMs);
    case 'announced':
      return event.status === 'online'
        ? applyMessage(state, event, rules, nowMs)
        : applyOfflineAnnouncement(state, event.atMs, nowMs);
    case 'message':
      return applyMessage(state, event, rules, nowMs);
    case 'direct_ended':
      return endDirectSession(state, event, nowMs);
    case 'revoked':
      return goOffline({ ...state, isSessionOpen: false }, 'service', 'revoked', nowMs, nowMs);
    case 'due':
      return applyInactivity(state, rules, nowMs);
  }
}

function logIn(state: PresenceState, rules: PresenceRules, nowMs: number): Move | undefined {
  const loggedIn: PresenceState = { ...state, logins: state.logins === 0 ? 1 : 2 };
  if (!rules.reportsConnections) return beginSession(loggedIn, nowMs, 'authenticated', nowMs);
  return { state: loggedIn, reason: 'authenticated', atMs: nowMs };
}

function beginSession(
  state: PresenceState,
  startedAtMs: number,
  reason: 'connected' | 'authenticated',
  nowMs: number,
): Move | undefined {
  // A repeated or overtaken report: this session is known already, maybe even over.
  const isKnown = state.sessionStartedAtMs !== null && startedAtMs <= state.sessionStartedAtMs;
  const isOver = state.unnamedEndAtMs !== null && startedAtMs <= state.unnamedEndAtMs;
  if (isKnown || isOver) return undefined;
  const seenAtMs = Math.min(startedAtMs, nowMs);
  const began: PresenceState = {
    ...state,
    isSessionOpen: true,
    sessionStartedAtMs: startedAtMs,
    oldWillUntilMs: oldWillUntil(state, seenAtMs),
  };
  // The report of the session's start may arrive after the device's offline announcement in that session.
  const isFarewellKnown = state.offlineBy === 'device' && (state.offlineAtMs ?? 0) > seenAtMs + oldWillMs;
  if (!state.isOnline && isFarewellKnown) return { state: began, reason, atMs: seenAtMs };
  return { ...goOnline(began, reason, seenAtMs, nowMs), hasReturned: true };
}

/** Until when an offline announcement may belong to an earlier session; null if there was none. */
function oldWillUntil(state: PresenceState, startedAtMs: number): number | null {
  // A session's messages may arrive before its report: then the device is online by this very session.
  const isOwnWord = !state.isSessionOpen && (state.onlineSinceMs ?? 0) >= startedAtMs - reorderingMs;
  const wasThere = state.isOnline && !isOwnWord;
  const isFirst = !wasThere && state.offlineAtMs === null && state.sessionStartedAtMs === null && state.logins < 2;
  if (isFirst) return null;
  const hasJustGone = !state.isOnline && startedAtMs - lastKnownAtMs(state) < oldWillMs;
  return startedAtMs + (wasThere || hasJustGone ? oldWillMs : unknownFarewellMs);
}

function endSession(
  state: PresenceState,
  event: Extract<PresenceEvent, { kind: 'disconnected' }>,
  nowMs: number,
): Move | undefined {
  if (takeoverReasons.includes(event.reason)) return undefined;
  const { sessionStartedAtMs: startedAtMs, endedAtMs, reason } = event;
  const newestAtMs = state.sessionStartedAtMs ?? -Infinity;
  if (startedAtMs !== null) {
    if (startedAtMs < newestAtMs || startedAtMs <= (state.endedSessionStartedAtMs ?? -Infinity)) return undefined;
    const ended = { sessionStartedAtMs: startedAtMs, endedSessionStartedAtMs: startedAtMs, isSessionOpen: false };
    return goOffline({ ...state, ...ended }, 'broker', 'disconnected', endedAtMs, nowMs, reason);
  }
  if (endedAtMs < newestAtMs || endedAtMs <= (state.unnamedEndAtMs ?? -Infinity)) return undefined;
  const ended: PresenceState = { ...state, unnamedEndAtMs: endedAtMs, isSessionOpen: false };
  // Most likely the end of the session before. If this session ended, inactivity shows it.
  if (state.isOnline && endedAtMs < (state.oldWillUntilMs ?? 0))
    return { state: ended, reason: 'disconnected', atMs: 0 };
  return goOffline(ended, 'broker', 'disconnected', endedAtMs, nowMs, reason);
}

function endDirectSession(
  state: PresenceState,
  { endedAtMs, reason, isEvidence }: Extract<PresenceEvent, { kind: 'direct_ended' }>,
  nowMs: number,
): Move {
  const ended = { isSessionOpen: false, endedSessionStartedAtMs: state.sessionStartedAtMs };
  const by = isEvidence ? 'broker' : 'service';
  return goOffline({ ...state, ...ended }, by, 'disconnected', endedAtMs, nowMs, reason);
}

/** A message or announcement: brings a device online unless it was sent before the end that is already known. */
function applyMessage(
  state: PresenceState,
  { kind, atMs }: Extract<PresenceEvent, { atMs: number }>,
  rules: PresenceRules,
  nowMs: number,
): Move | undefined {
  if (state.isOnline) {
    const online = goOnline(state, kind, atMs, nowMs);
    if (kind === 'message') return online;
    // A will arrives at the bridge before the first message of the new session.
    const isOfThisSession = atMs >= (state.sessionStartedAtMs ?? 0);
    return isOfThisSession
      ? { ...online, state: { ...online.state, oldWillUntilMs: null }, hasReturned: true }
      : online;
  }
  const isBeforeEnd = atMs <= (state.offlineAtMs ?? -Infinity) + (state.offlineBy === 'broker' ? reorderingMs : 0);
  const online = goOnline(state, kind, atMs, nowMs);
  const isTooOld = (inactivityDueAtMs(online.state, rules) ?? Infinity) <= nowMs;
  return isBeforeEnd || isTooOld ? undefined : online;
}

function applyOfflineAnnouncement(state: PresenceState, atMs: number, nowMs: number): Move | undefined {
  const isBeforeLife = atMs < lastKnownAtMs(state);
  const isOldWill = state.isOnline && atMs < (state.oldWillUntilMs ?? 0);
  const isOfKnownEnd =
    state.offlineBy === 'broker' && !state.isOnline && atMs <= (state.offlineAtMs ?? 0) + reorderingMs;
  if (isBeforeLife || isOldWill || isOfKnownEnd) return undefined;
  return goOffline(state, 'device', 'announced', atMs, nowMs);
}

function applyInactivity(state: PresenceState, rules: PresenceRules, nowMs: number): Move | undefined {
  if ((state.unconfirmedUntilMs ?? Infinity) <= nowMs) return goUnconfirmed(state, nowMs);
  if ((inactivityDueAtMs(state, rules) ?? Infinity) > nowMs) return undefined;
  return goOffline(state, 'service', 'silence', state.lastOnlineAtMs ?? nowMs, nowMs);
}

function doubt(
  state: PresenceState,
  { beforeMs, confirmWithinMs }: Extract<PresenceEvent, { kind: 'doubted' }>,
  rules: PresenceRules,
  nowMs: number,
): Move | undefined {
  const isReported = rules.reportsConnections && state.isSessionOpen;
  if (!isReported || !state.isOnline || (state.lastOnlineAtMs ?? 0) > beforeMs) return undefined;
  if (confirmWithinMs === 0) return goUnconfirmed(state, nowMs);
  const unconfirmedUntilMs = Math.min(state.unconfirmedUntilMs ?? Infinity, nowMs + confirmWithinMs);
  return { state: { ...state, unconfirmedUntilMs }, reason: 'unconfirmed', atMs: nowMs };
}

function goUnconfirmed(state: PresenceState, nowMs: number): Move {
  const ended = { ...state, isSessionOpen: false, endedSessionStartedAtMs: state.sessionStartedAtMs };
  return goOffline(ended, 'service', 'unconfirmed', state.lastOnlineAtMs ?? nowMs, nowMs);
}

function lastKnownAtMs({ lastOnlineAtMs, offlineAtMs }: PresenceState): number {
  return Math.max(lastOnlineAtMs ?? 0, offlineAtMs ?? 0);
}

function goOnline(state: PresenceState, reason: TransitionReason, atMs: number, nowMs: number): Move {
  const seenAtMs = Math.min(atMs, nowMs);
  const onlineSinceMs = state.isOnline ? state.onlineSinceMs : seenAtMs;
  const lastOnlineAtMs = Math.max(state.lastOnlineAtMs ?? 0, seenAtMs);
  if (state.isOnline && lastOnlineAtMs === state.lastOnlineAtMs) return { state, reason, atMs };
  const online = { isOnline: true, onlineSinceMs, lastOnlineAtMs, unconfirmedUntilMs: null };
  return { state: { ...state, ...online }, reason, atMs };
}

function goOffline(
  state: PresenceState,
  offlineBy: NonNullable<PresenceState['offlineBy']>,
  reason: TransitionReason,
  atMs: number,
  nowMs: number,
  detail = '',
): Move {
  const offlineAtMs = Math.min(atMs, nowMs);
  // Only broker and device know that it was there until its end.
  const isEvidence = state.isOnline && offlineBy !== 'service';
  const lastOnlineAtMs = isEvidence ? Math.max(state.lastOnlineAtMs ?? 0, offlineAtMs) : state.lastOnlineAtMs;
  const gone = { isOnline: false, oldWillUntilMs: null, unconfirmedUntilMs: null, offlineAtMs, offlineBy };
  return { state: { ...state, ...gone, lastOnlineAtMs }, reason, detail, atMs: offlineAtMs };
}

function planAnnouncement(
  state: PresenceState,
  graceMs: number,
  rules: PresenceRules,
  nowMs: number,
): Pick<PresenceOutcome, 'state' | 'announce'> {
  const truth = state.isOnline && !rules.isDisabled ? 'online' : 'offline';
  const isBelieved = state.lastAnnounced === truth || (state.lastAnnounced === null && truth === 'offline');
  if (isBelieved) {
    return { state: state.announceAtMs === null ? state : { ...state, announceAtMs: null }, announce: undefined };
  }
  const wantedAtMs = truth === 'online' || rules.isDisabled ? nowMs : (state.announceAtMs ?? nowMs + graceMs);
  const announceAtMs = Math.max(wantedAtMs, rules.announceFromMs);
  if (announceAtMs > nowMs) return { state: { ...state, announceAtMs }, announce: undefined };
  return { state: { ...state, lastAnnounced: truth, announceAtMs: null }, announce: truth };
}
