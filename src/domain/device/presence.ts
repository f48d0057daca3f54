// Slice: presence with what follows from it: the history of transitions, the service's announcements on the status topic,
// and that the projection in D1 is behind. The rules of being online are connection.ts.
import { liveGenerations } from './credentials.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import { parseJson } from '../json.ts';
import { topicOf } from '../topics.ts';
import {
  decidePresence,
  inactivityTimeoutMs,
  recordResolutionMs,
  initialPresence,
  type PresenceEvent,
  type PresenceRules,
} from './connection.ts';
import { roomAtMs, spend } from './budget.ts';
import type { Effect } from './effects.ts';
import { fingerprint } from './fingerprint.ts';
import { appendHistory, type Transition } from './history.ts';
import { markProjectionBehind } from './projection.ts';
import type { Announcement, DeviceState, PresenceSlice } from './state.ts';

const retryAfterMs = 10_000;
/** An older announcement is not published any more. */
const announcementLifeMs = 60_000;
const publishWithinMs = 4_500;
const rememberedAnnouncements = 8;
const coalesceTransitionsMs = 10_000;

export const noPresence: PresenceSlice = {
  connection: initialPresence,
  transitions: 0,
  waiting: null,
  announcements: [],
  projectionVersion: 0,
  isProjectionBehind: false,
  isAnnouncing: false,
  retryAtMs: null,
};

export function rulesOf({ settings, identity, budgets, edge }: DeviceState, nowMs: number): PresenceRules {
  const isAtEdge = edge.session !== null;
  return {
    reportsConnections: settings.reportsConnections || isAtEdge,
    inactivityTimeoutMs: inactivityTimeoutMs(settings.keepAliveSeconds),
    // The session's own keep-alive is watched there: see edge-session.ts.
    sessionSilenceMs: isAtEdge ? Infinity : settings.limits.sessionSilenceHours * 3_600_000,
    offlineGraceMs: identity.offlineGraceSeconds * 1000,
    isDisabled: identity.isDisabled,
    announceFromMs: roomAtMs(budgets.announcements, settings.limits.deviceAnnouncementsPerMinute, nowMs),
  };
}

/** How coarsely the last message is recorded: a session that the broker reported is watched for hours. */
export function resolutionOf({ settings, presence, edge }: DeviceState): number {
  // Its socket knows.
  if (edge.session !== null) return Infinity;
  const { isSessionOpen } = presence.connection;
  const isLong = settings.reportsConnections && isSessionOpen;
  return isLong ? settings.limits.sessionSilenceHours * 450_000 : recordResolutionMs(settings.keepAliveSeconds);
}

/** `hasReturned`: the device has come back by this event. */
export function applyPresence(
  state: DeviceState,
  event: PresenceEvent,
  nowMs: number,
  effects: Effect[],
): { state: DeviceState; hasReturned: boolean } {
  const decided = decidePresence(state.presence.connection, event, rulesOf(state, nowMs), nowMs);
  const { transition, hasReturned } = decided;
  const isChanged = decided.state !== state.presence.connection;
  let next = isChanged ? withPresence(state, { connection: decided.state }) : state;
  if (transition !== undefined) {
    const { isOnline, reason, detail, atMs } = transition;
    next = recordTransition(next, { status: isOnline ? 'online' : 'offline', reason, detail, time: atMs }, nowMs);
    next = markProjectionBehind(next);
  }
  if (decided.announce !== undefined) next = announce(next, decided.announce, nowMs, effects);
  return { state: next, hasReturned };
}

/** Beyond the limit, transitions wait for a while and become one entry: the last of them, with their number. */
export function recordTransition(state: DeviceState, entry: Transition, nowMs: number): DeviceState {
  const { waiting } = state.presence;
  const transitions = spend(state.budgets.transitions, state.settings.limits.deviceTransitionsPerMinute, nowMs);
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
export function applyDuePresence(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const { waiting } = state.presence;
  const recorded = waiting !== null && waiting.dueAtMs <= nowMs ? appendTransition(state, waiting.entry) : state;
  const cleared = withPresence(recorded, { retryAtMs: null });
  const applied = applyPresence(cleared, { kind: 'due' }, nowMs, effects).state;
  return publishAnnouncement(applied, nowMs, effects);
}

/** The newest announcement may still be pending: a newer one is published at once, the same one by the alarm. */
export function noteAnnouncementEnd(
  state: DeviceState,
  { time, isPublished }: { time: number; isPublished: boolean },
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const announcements = state.presence.announcements.map((one) => (one.time === time ? { ...one, isPublished } : one));
  const ended = withPresence(state, { announcements, isAnnouncing: false });
  return pendingAnnouncement(ended, nowMs)?.time === time ? ended : publishAnnouncement(ended, nowMs, effects);
}

/** Whether a status message is the service's own, received back through the bridge. */
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

/** When something other than inactivity is due. */
export function presenceDueAtMs({ presence }: DeviceState): number {
  const { connection, retryAtMs, waiting } = presence;
  const { announceAtMs, unconfirmedUntilMs } = connection;
  return Math.min(...[announceAtMs, unconfirmedUntilMs, retryAtMs, waiting?.dueAtMs].map((atMs) => atMs ?? Infinity));
}

function announce(state: DeviceState, status: 'online' | 'offline', nowMs: number, effects: Effect[]): DeviceState {
  const announcements = [...state.presence.announcements, { status, time: nowMs, isPublished: false }];
  const topic = topicOf(state.identity, topicActions.status);
  const payload = JSON.stringify({ status, time: nowMs });
  const { subscriptions, credentials, budgets, settings } = state;
  const generations = liveGenerations(credentials, nowMs);
  effects.push({ kind: 'push', topic, payload, subscriptions, generations });
  // Never beyond the limit: the connection's rules hold back until there is room.
  const spent = spend(budgets.announcements, settings.limits.deviceAnnouncementsPerMinute, nowMs);
  const counted = { ...state, budgets: { ...budgets, announcements: spent ?? budgets.announcements } };
  const announced = withPresence(counted, { announcements: announcements.slice(-rememberedAnnouncements) });
  return publishAnnouncement(announced, nowMs, effects);
}

/** Publishes the newest announcement, the only one that is still news. */
function publishAnnouncement(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const pending = pendingAnnouncement(state, nowMs);
  if (pending === undefined || state.presence.isAnnouncing) return state;
  const { status, time } = pending;
  const topic = topicOf(state.identity, topicActions.status);
  const payload = JSON.stringify({ status, time });
  const expiresAtMs = nowMs + publishWithinMs;
  const isAtEdge = state.edge.isLast;
  effects.push({ kind: 'publish_announcement', topic, payload, time, expiresAtMs, isAtEdge });
  return withPresence(state, { isAnnouncing: true });
}

function pendingAnnouncement({ presence }: DeviceState, nowMs: number): Announcement | undefined {
  const newest = presence.announcements.at(-1);
  const isPending = newest !== undefined && !newest.isPublished && newest.time + announcementLifeMs > nowMs;
  return isPending ? newest : undefined;
}

function withPresence(state: DeviceState, change: Partial<PresenceSlice>): DeviceState {
  return { ...state, presence: { ...state.presence, ...change } };
}
