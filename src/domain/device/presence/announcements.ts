// Slice: presence and what follows from it: the history of transitions, the service's announcements on the status topic, and
// that the projection in D1 is behind. The rules of being online are presence.ts.
import type { Slice, DeviceState } from '../core/state.ts';
import { topicActions } from '../../../protocol/mqtt.ts';
import { fingerprint } from '../../fingerprint.ts';
import { parseJson } from '../../json.ts';
import { topicOf } from '../../topics.ts';
import type { Decision, Reporter } from '../core/events.ts';
import { appendHistory, type Transition } from '../core/history.ts';
import { pushMessage } from '../messages/subscriptions.ts';
import { decidePresence, initialPresence, type PresenceEvent, type PresenceRules } from './presence.ts';
import { markProjectionBehind } from './projection.ts';
import { roomAtMs, spend } from '../../token-bucket.ts';
import { presenceTimes } from './presence-times.ts';

type Announcement = { status: 'online' | 'offline'; time: number; isPublished: boolean };

const initial = {
  connection: initialPresence,
  transitions: 0,
  /** Transitions that are not in the history yet, because there were too many: the last, with their number. */
  waiting: null as { entry: Transition; dueAtMs: number } | null,
  /** The service's own last status messages, newest last: they come back through the bridge and must not be believed. */
  announcements: [] as readonly Announcement[],
  projectionVersion: 0,
  isProjectionBehind: false,
  isAnnouncing: false,
  retryAtMs: null as number | null,
};
type PresenceSlice = typeof initial;

const retryAfterMs = 10_000;
/** An older announcement is not published any more. */
const announcementLifeMs = 60_000;
const publishWithinMs = 4_500;
const rememberedAnnouncements = 8;
/** Beyond it the newest status is announced later. A device that comes and goes more often than this is broken. */
export const announcementsPerMinute = 20;
/** Beyond it transitions become one entry of the history, which keeps a hundred. */
export const transitionsPerMinute = 20;
const coalesceTransitionsMs = 10_000;

export const presenceSlice: Slice<PresenceSlice> = {
  initial,
  row: 'activity',
  read: (saved) => ({
    ...saved,
    connection: { ...initialPresence, ...saved.connection },
    isAnnouncing: false,
    retryAtMs: null,
  }),
  // The alarm records the time of the last message: see core/state.ts.
  isWorthSaving: ({ presence: { connection: before, ...saved } }, { presence: { connection, ...present } }) =>
    isChanged(saved, present, ['isAnnouncing', 'retryAtMs']) || isChanged(before, connection, ['lastOnlineAtMs']),
  /** Inactivity is not among them: the alarm treats it apart. */
  dueAtMs: ({ presence: { connection, retryAtMs, waiting } }) => {
    const times = [connection.announceAtMs, connection.unconfirmedUntilMs, retryAtMs, waiting?.dueAtMs];
    return Math.min(...times.map((atMs) => atMs ?? Infinity));
  },
  onNewOwner: ({ presence }) => {
    const { isOnline, lastOnlineAtMs } = presence.connection;
    const connection = { ...presence.connection, lastOnlineAtMs: isOnline ? lastOnlineAtMs : null };
    return { ...presence, connection, waiting: null };
  },
  onMove: ({ presence: { connection, transitions, projectionVersion, isProjectionBehind } }) => ({
    ...initial,
    connection: { ...initialPresence, lastOnlineAtMs: connection.lastOnlineAtMs },
    transitions,
    projectionVersion,
    isProjectionBehind,
  }),
};

function isChanged<Value extends object>(before: Value, after: Value, except: readonly (keyof Value)[]): boolean {
  const names = Object.keys(after) as (keyof Value)[];
  return names.some((name) => before[name] !== after[name] && !except.includes(name));
}

export function rulesOf({ settings, identity, budgets, direct }: DeviceState, nowMs: number): PresenceRules {
  const isDirect = direct.session !== null;
  return {
    reportsConnections: settings.reportsConnections || isDirect,
    inactivityTimeoutMs: presenceTimes.inactivityMs(settings.keepAliveSeconds),
    // The session's own keep-alive is watched there: see sessions.ts.
    sessionSilenceMs: isDirect ? Infinity : presenceTimes.sessionSilenceMs(settings.limits),
    offlineGraceMs: presenceTimes.offlineGraceMs(identity),
    isDisabled: identity.isDisabled,
    announceFromMs: roomAtMs(budgets.announcements, announcementsPerMinute, nowMs),
  };
}

/** How coarsely the last message is recorded: a session that the broker reported is watched for hours. */
export function resolutionOf({ settings, presence, direct }: DeviceState): number {
  // Its socket knows.
  if (direct.session !== null) return Infinity;
  const { isSessionOpen } = presence.connection;
  const isLong = settings.reportsConnections && isSessionOpen;
  return isLong
    ? presenceTimes.sessionResolutionMs(settings.limits)
    : presenceTimes.recordResolutionMs(settings.keepAliveSeconds);
}

export function applyPresence(
  state: DeviceState,
  event: PresenceEvent,
  decision: Decision,
): { state: DeviceState; hasReturned: boolean } {
  const { nowMs } = decision;
  const decided = decidePresence(state.presence.connection, event, rulesOf(state, nowMs), nowMs);
  const { transition, hasReturned } = decided;
  const isChanged = decided.state !== state.presence.connection;
  let next = isChanged ? withPresence(state, { connection: decided.state }) : state;
  if (transition !== undefined) {
    const { isOnline, reason, detail, atMs } = transition;
    next = recordTransition(next, { status: isOnline ? 'online' : 'offline', reason, detail, time: atMs }, nowMs);
    next = markProjectionBehind(next);
  }
  if (decided.announce !== undefined) next = announce(next, decided.announce, decision);
  return { state: next, hasReturned };
}

/** Beyond the limit, transitions wait for a while and become one entry: the last of them, with their number. */
export function recordTransition(state: DeviceState, entry: Transition, nowMs: number): DeviceState {
  const { waiting } = state.presence;
  const transitions = spend(state.budgets.transitions, transitionsPerMinute, nowMs);
  if (transitions !== undefined && waiting === null) {
    return appendTransition({ ...state, budgets: { ...state.budgets, transitions } }, entry);
  }
  const dueAtMs = waiting?.dueAtMs ?? nowMs + coalesceTransitionsMs;
  return withPresence(state, { waiting: { entry: { ...entry, count: (waiting?.entry.count ?? 0) + 1 }, dueAtMs } });
}

function appendTransition(state: DeviceState, entry: Transition): DeviceState {
  const number = state.presence.transitions + 1;
  return appendHistory(withPresence(state, { transitions: number, waiting: null }), {
    kind: 'transition',
    number,
    entry,
  });
}

/** Inactivity, announcements that were held back, and what the broker did not take before. */
export function applyDuePresence(state: DeviceState, decision: Decision): DeviceState {
  const { waiting } = state.presence;
  const recorded =
    waiting !== null && waiting.dueAtMs <= decision.nowMs ? appendTransition(state, waiting.entry) : state;
  const cleared = withPresence(recorded, { retryAtMs: null });
  const applied = applyPresence(cleared, { kind: 'due' }, decision).state;
  return publishAnnouncement(applied, decision);
}

/** An announcement that came meanwhile is published at once; the same announcement again by the alarm. */
export const noteAnnouncementEnd: Reporter<'announcement_ended'> = (state, { time, isPublished }, decision) => {
  const announcements = state.presence.announcements.map((entry) =>
    entry.time === time ? { ...entry, isPublished } : entry,
  );
  const ended = withPresence(state, { announcements, isAnnouncing: false });
  return pendingAnnouncement(ended, decision.nowMs)?.time === time ? ended : publishAnnouncement(ended, decision);
};

export function isEcho({ presence }: DeviceState, payload: string): boolean {
  if (presence.announcements.length === 0) return false;
  const received = JSON.stringify(parseJson(payload));
  return presence.announcements.some(({ status, time }) => JSON.stringify({ status, time }) === received);
}

/** Sets the time of the next try, spread so that not all devices publish at once after an outage of the broker. */
export function planRetry(state: DeviceState, nowMs: number): DeviceState {
  const isRetrying = pendingAnnouncement(state, nowMs) !== undefined;
  const { retryAtMs } = state.presence;
  if (!isRetrying) return retryAtMs === null ? state : withPresence(state, { retryAtMs: null });
  if (retryAtMs !== null) return state;
  const spread = fingerprint(state.identity.deviceId) / 2 ** 53;
  return withPresence(state, { retryAtMs: nowMs + retryAfterMs * (1 + spread) });
}

function announce(state: DeviceState, status: 'online' | 'offline', decision: Decision): DeviceState {
  const { nowMs } = decision;
  const announcements = [...state.presence.announcements, { status, time: nowMs, isPublished: false }];
  pushMessage(state, topicActions.status, JSON.stringify({ status, time: nowMs }), decision);
  const { budgets } = state;
  // Never beyond the limit: the connection's rules hold back until there is room.
  const spent = spend(budgets.announcements, announcementsPerMinute, nowMs);
  const counted = { ...state, budgets: { ...budgets, announcements: spent ?? budgets.announcements } };
  const announced = withPresence(counted, { announcements: announcements.slice(-rememberedAnnouncements) });
  return publishAnnouncement(announced, decision);
}

function publishAnnouncement(state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  const pending = pendingAnnouncement(state, nowMs);
  if (pending === undefined || state.presence.isAnnouncing) return state;
  const { status, time } = pending;
  const topic = topicOf(state.identity, topicActions.status);
  const payload = JSON.stringify({ status, time });
  const expiresAtMs = nowMs + publishWithinMs;
  const isDirect = state.direct.isLast;
  effects.push({ kind: 'publish_announcement', topic, payload, time, expiresAtMs, isDirect });
  return withPresence(state, { isAnnouncing: true });
}

function pendingAnnouncement({ presence }: DeviceState, nowMs: number): Announcement | undefined {
  const newest = presence.announcements.at(-1);
  const isPending = newest !== undefined && !newest.isPublished && newest.time + announcementLifeMs > nowMs;
  return isPending ? newest : undefined;
}

export function withConnection(state: DeviceState, change: Partial<PresenceSlice['connection']>): DeviceState {
  return withPresence(state, { connection: { ...state.presence.connection, ...change } });
}

function withPresence(state: DeviceState, change: Partial<PresenceSlice>): DeviceState {
  return { ...state, presence: { ...state.presence, ...change } };
}
