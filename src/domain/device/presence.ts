// Slice: presence with what follows from it: the history of transitions, the service's announcements on the status topic,
// and the projection in D1. The rules of being online are connection.ts.
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
import type { Effect, Projection } from './effects.ts';
import { fingerprint } from './fingerprint.ts';
import { appendHistory } from './history.ts';
import type { Announcement, DeviceState, PresenceSlice } from './state.ts';

const retryAfterMs = 10_000;
/** An older announcement is not published any more. */
const announcementLifeMs = 60_000;
const publishWithinMs = 4_500;
const rememberedAnnouncements = 8;

export const noPresence: PresenceSlice = {
  connection: initialPresence,
  transitions: 0,
  announcements: [],
  projectionVersion: 0,
  isProjectionBehind: false,
  isAnnouncing: false,
  retryAtMs: null,
};

export function rulesOf({ settings, identity }: DeviceState): PresenceRules {
  return {
    reportsConnections: settings.reportsConnections,
    inactivityTimeoutMs: inactivityTimeoutMs(settings.keepAliveSeconds),
    sessionSilenceMs: settings.limits.sessionSilenceHours * 3_600_000,
    offlineGraceMs: identity.offlineGraceSeconds * 1000,
    isDisabled: identity.isDisabled,
  };
}

/** How coarsely the last message is recorded: a session that the broker reported is watched for hours. */
export function resolutionOf({ settings, presence }: DeviceState): number {
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
  const decided = decidePresence(state.presence.connection, event, rulesOf(state), nowMs);
  const { transition, hasReturned } = decided;
  const isChanged = decided.state !== state.presence.connection;
  let next = isChanged ? withPresence(state, { connection: decided.state }) : state;
  if (transition !== undefined) {
    const number = next.presence.transitions + 1;
    const { isOnline, reason, detail, atMs } = transition;
    const entry = { status: isOnline ? 'online' : 'offline', reason, detail, time: atMs } as const;
    next = appendHistory(withPresence(next, { transitions: number }), { kind: 'transition', number, entry });
    next = markProjectionBehind(next);
  }
  if (decided.announce !== undefined) next = announce(next, decided.announce, nowMs, effects);
  return { state: next, hasReturned };
}

/** D1 is behind; the effect is added at the end of the decision, once for all changes of it. */
export function markProjectionBehind(state: DeviceState): DeviceState {
  return withPresence(state, {
    projectionVersion: state.presence.projectionVersion + 1,
    isProjectionBehind: true,
  });
}

export function projectionOf({ identity, presence }: DeviceState): Projection {
  const { isOnline, lastOnlineAtMs } = presence.connection;
  return {
    version: presence.projectionVersion,
    name: identity.name,
    isDisabled: identity.isDisabled,
    connectionStatus: isOnline ? 1 : 2,
    lastOnlineAt: lastOnlineAtMs,
  };
}

/** A write that a newer change overtook was not the last one. */
export function noteProjectionWritten(state: DeviceState, version: number): DeviceState {
  return version === state.presence.projectionVersion ? withPresence(state, { isProjectionBehind: false }) : state;
}

/** Inactivity, announcements that were held back, and what D1 or the broker did not take before. */
export function applyDuePresence(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const cleared = withPresence(state, { retryAtMs: null });
  const applied = applyPresence(cleared, { kind: 'due' }, nowMs, effects).state;
  if (applied.presence.isProjectionBehind && applied.presence.projectionVersion === state.presence.projectionVersion) {
    effects.push({ kind: 'write_projection', projection: projectionOf(applied) });
  }
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

/** Sets the time of the next try, spread so that not all devices write at once after an outage of the database. */
export function planRetry(state: DeviceState, nowMs: number): DeviceState {
  const isRetrying = state.presence.isProjectionBehind || pendingAnnouncement(state, nowMs) !== undefined;
  const { retryAtMs } = state.presence;
  if (!isRetrying) return retryAtMs === null ? state : withPresence(state, { retryAtMs: null });
  if (retryAtMs !== null) return state;
  const spread = fingerprint(state.identity.deviceId) / 2 ** 53;
  return withPresence(state, { retryAtMs: nowMs + retryAfterMs * (1 + spread) });
}

/** When something other than inactivity is due. */
export function presenceDueAtMs({ presence }: DeviceState): number {
  const { announceAtMs, unconfirmedUntilMs } = presence.connection;
  return Math.min(announceAtMs ?? Infinity, unconfirmedUntilMs ?? Infinity, presence.retryAtMs ?? Infinity);
}

function announce(state: DeviceState, status: 'online' | 'offline', nowMs: number, effects: Effect[]): DeviceState {
  const announcements = [...state.presence.announcements, { status, time: nowMs, isPublished: false }];
  const topic = topicOf(state.identity, topicActions.status);
  const payload = JSON.stringify({ status, time: nowMs });
  const { subscriptions, credentials } = state;
  effects.push({ kind: 'push', topic, payload, subscriptions, revocations: credentials.revocations });
  const announced = withPresence(state, { announcements: announcements.slice(-rememberedAnnouncements) });
  return publishAnnouncement(announced, nowMs, effects);
}

/** Publishes the newest announcement, the only one that is still news. */
function publishAnnouncement(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const pending = pendingAnnouncement(state, nowMs);
  if (pending === undefined || state.presence.isAnnouncing) return state;
  const { status, time } = pending;
  const topic = topicOf(state.identity, topicActions.status);
  const payload = JSON.stringify({ status, time });
  effects.push({ kind: 'publish_announcement', topic, payload, time, expiresAtMs: nowMs + publishWithinMs });
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
