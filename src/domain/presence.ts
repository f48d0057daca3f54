// Whether a device is online: one pure state machine over everything that says something about it. Knows no broker,
// no storage and no clock; `nowMs` and the times inside the events are the service's. Being disabled is kept apart.

export type PresenceState = {
  isOnline: boolean;
  /** When the present (or last) broker session began, by the broker's word: it tells sessions apart. */
  sessionStartedAtMs: number | null;
  /** Whether the device looked online when that session began, so that the old session's will may still arrive. */
  isTakeover: boolean;
  /** The newest session that is known to be over, by its start. */
  endedSessionStartedAtMs: number | null;
  /** When the service learned that the device had gone, and from whom: what was sent before does not bring it back. */
  goneAtMs: number | null;
  goneBy: 'broker' | 'device' | null;
  lastOnlineAtMs: number | null;
  /** What subscribers of the status topic were told last, by the device or by the service. */
  told: 'online' | 'offline' | null;
  /** When an offline that is held back, in case the device only flaps, has to be told. */
  tellAtMs: number | null;
};

export type PresenceEvent =
  /** The broker accepted a session. */
  | { kind: 'connected'; sessionStartedAtMs: number }
  /** A session ended; brokers that do not say which one leave `sessionStartedAtMs` null. */
  | { kind: 'disconnected'; sessionStartedAtMs: number | null; endedAtMs: number; reason: string }
  /** The login was accepted: proof of a session only where the broker reports no connects. */
  | { kind: 'authenticated' }
  /** The device, or its will, said so on the status topic. */
  | { kind: 'announced'; status: 'online' | 'offline'; atMs: number }
  | { kind: 'message'; atMs: number }
  /** The device may no longer be here: disabled, deleted, credentials rotated. */
  | { kind: 'revoked' }
  /** Time has passed: silence and held-back announcements are judged. */
  | { kind: 'alarm' };

export type PresenceRules = {
  /** The broker reports connects and disconnects; otherwise silence is watched. */
  reportsConnections: boolean;
  silenceTimeoutMs: number;
  /** How long an unannounced offline is held back before subscribers are told. */
  offlineGraceMs: number;
};

export type TransitionReason =
  'connected' | 'disconnected' | 'authenticated' | 'announced' | 'message' | 'silence' | 'revoked';

export type PresenceOutcome = {
  state: PresenceState;
  /** Set where `isOnline` changed. */
  transition?: { isOnline: boolean; reason: TransitionReason; detail: string; atMs: number };
  /** What the service has to publish, because the device did not say it itself. */
  tell?: 'online' | 'offline';
};

/** Bridge and broker clocks, and two ways into the service: an event this much older than an end belongs before it. */
const reorderingMs = 2_000;
/** A will of the session that was taken over arrives within this time of the new session's start. */
const staleWillMs = 5_000;
/** Ends of a session that another one of the same client replaced: the device is still here. */
const takeoverReasons: readonly string[] = ['takenover', 'discarded', 'takeover'];

export const initialPresence: PresenceState = {
  isOnline: false,
  sessionStartedAtMs: null,
  isTakeover: false,
  endedSessionStartedAtMs: null,
  goneAtMs: null,
  goneBy: null,
  lastOnlineAtMs: null,
  told: null,
  tellAtMs: null,
};

export function silenceTimeoutMs(keepAliveSeconds: number): number {
  return keepAliveSeconds * 1_500 + 15_000;
}

export function decidePresence(
  state: PresenceState,
  event: PresenceEvent,
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  switch (event.kind) {
    case 'connected':
      return beginSession(state, event.sessionStartedAtMs, 'connected', rules, nowMs);
    case 'authenticated':
      return rules.reportsConnections ? { state } : beginSession(state, nowMs, 'authenticated', rules, nowMs);
    case 'disconnected':
      return endSession(state, event, rules, nowMs);
    case 'announced':
      return event.status === 'online'
        ? hear({ ...state, told: 'online' }, event.atMs, 'announced', rules, nowMs)
        : hearOffline(state, event.atMs, rules, nowMs);
    case 'message':
      return hear(state, event.atMs, 'message', rules, nowMs);
    case 'revoked':
      return goOffline(state, nowMs, 'broker', 'revoked', '', { ...rules, offlineGraceMs: 0 }, nowMs);
    case 'alarm':
      return judgeTime(state, rules, nowMs);
  }
}

function beginSession(
  state: PresenceState,
  startedAtMs: number,
  reason: 'connected' | 'authenticated',
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  // A repeated or overtaken report: this session is known already, maybe even over.
  if (state.sessionStartedAtMs !== null && startedAtMs <= state.sessionStartedAtMs) return { state };
  const began = { ...state, sessionStartedAtMs: startedAtMs, isTakeover: state.isOnline };
  return goOnline(began, Math.max(startedAtMs, state.lastOnlineAtMs ?? 0), reason, rules, nowMs);
}

function endSession(
  state: PresenceState,
  event: Extract<PresenceEvent, { kind: 'disconnected' }>,
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  if (takeoverReasons.includes(event.reason)) return { state };
  const startedAtMs = event.sessionStartedAtMs;
  const isOver = startedAtMs !== null && startedAtMs <= (state.endedSessionStartedAtMs ?? -1);
  const isOlder = (startedAtMs ?? event.endedAtMs) < (state.sessionStartedAtMs ?? 0);
  if (isOver || isOlder) return { state };
  // The end may overtake the report of its own beginning, which then finds the session known.
  const sessionStartedAtMs = startedAtMs ?? state.sessionStartedAtMs;
  const known = { ...state, sessionStartedAtMs, endedSessionStartedAtMs: sessionStartedAtMs };
  return goOffline(known, event.endedAtMs, 'broker', 'disconnected', event.reason, rules, nowMs);
}

/** A sign of life: brings a device online unless it was sent before the end that is already known. */
function hear(
  state: PresenceState,
  atMs: number,
  reason: 'announced' | 'message',
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  if (state.isOnline) return { state: { ...state, lastOnlineAtMs: latest(state.lastOnlineAtMs, atMs) } };
  const gone = state.goneAtMs;
  const isBeforeEnd = gone !== null && (state.goneBy === 'broker' ? atMs <= gone + reorderingMs : atMs < gone);
  const isTooOld = !rules.reportsConnections && atMs + rules.silenceTimeoutMs <= nowMs;
  if (!isBeforeEnd && !isTooOld) return goOnline(state, atMs, reason, rules, nowMs);
  // Subscribers saw an online that is not true: they are told again.
  if (reason === 'announced') return { state: { ...state, told: 'offline' }, tell: 'offline' };
  return { state };
}

function hearOffline(state: PresenceState, atMs: number, rules: PresenceRules, nowMs: number): PresenceOutcome {
  const started = state.sessionStartedAtMs;
  const isBeforeSession = started !== null && atMs < started - reorderingMs;
  const isOldWill = started !== null && state.isOnline && state.isTakeover && atMs < started + staleWillMs;
  if (isBeforeSession || isOldWill) {
    // Subscribers saw an offline that is not true: they are told again.
    return state.isOnline ? { state: { ...state, told: 'online' }, tell: 'online' } : { state };
  }
  return goOffline({ ...state, told: 'offline' }, atMs, 'device', 'announced', '', rules, nowMs);
}

function judgeTime(state: PresenceState, rules: PresenceRules, nowMs: number): PresenceOutcome {
  const silentAtMs = silenceDeadline(state, rules);
  if (silentAtMs !== null && silentAtMs <= nowMs) {
    const seenAtMs = state.lastOnlineAtMs ?? nowMs;
    return goOffline(state, seenAtMs, 'device', 'silence', '', { ...rules, offlineGraceMs: 0 }, nowMs);
  }
  if (state.tellAtMs === null || state.tellAtMs > nowMs) return { state };
  const settled: PresenceState = { ...state, tellAtMs: null };
  if (state.isOnline || state.told === 'offline') return { state: settled };
  return { state: { ...settled, told: 'offline' }, tell: 'offline' };
}

function goOnline(
  state: PresenceState,
  atMs: number,
  reason: TransitionReason,
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  const online: PresenceState = {
    ...state,
    isOnline: true,
    lastOnlineAtMs: latest(state.lastOnlineAtMs, Math.min(atMs, nowMs)),
    tellAtMs: null,
    told: 'online',
  };
  if (state.isOnline) return { state: online };
  return {
    state: online,
    transition: { isOnline: true, reason, detail: '', atMs: Math.min(atMs, nowMs) },
    ...(state.told === 'online' ? {} : { tell: 'online' as const }),
  };
}

function goOffline(
  state: PresenceState,
  atMs: number,
  goneBy: 'broker' | 'device',
  reason: TransitionReason,
  detail: string,
  rules: PresenceRules,
  nowMs: number,
): PresenceOutcome {
  const endedAtMs = Math.min(atMs, nowMs);
  const offline: PresenceState = {
    ...state,
    isOnline: false,
    isTakeover: false,
    goneAtMs: goneBy === 'broker' ? nowMs : endedAtMs,
    goneBy,
    lastOnlineAtMs: state.isOnline ? latest(state.lastOnlineAtMs, endedAtMs) : state.lastOnlineAtMs,
  };
  if (!state.isOnline) return { state: offline };
  const transition = { isOnline: false, reason, detail, atMs: endedAtMs };
  if (offline.told === 'offline') {
    return { state: { ...offline, tellAtMs: null }, transition };
  }
  if (rules.offlineGraceMs > 0) {
    return { state: { ...offline, tellAtMs: nowMs + rules.offlineGraceMs }, transition };
  }
  return { state: { ...offline, told: 'offline', tellAtMs: null }, transition, tell: 'offline' };
}

/** When to be woken with `alarm`; null: not at all. */
export function presenceWakeAtMs(state: PresenceState, rules: PresenceRules): number | null {
  const times = [state.tellAtMs, silenceDeadline(state, rules)].filter((time) => time !== null);
  return times.length === 0 ? null : Math.min(...times);
}

function silenceDeadline(state: PresenceState, rules: PresenceRules): number | null {
  if (rules.reportsConnections || !state.isOnline) return null;
  return (state.lastOnlineAtMs ?? 0) + rules.silenceTimeoutMs;
}

function latest(one: number | null, other: number): number {
  return one === null ? other : Math.max(one, other);
}
