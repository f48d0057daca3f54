// Rules and events of the presence machine, with times relative to one start.
import type { PresenceEvent, PresenceRules } from '../../../src/domain/device/presence/presence.ts';
import { presenceTimes } from '../../../src/domain/device/presence/presence-times.ts';

export const second = 1_000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const start = 1_763_000_000_000;
export const silenceMs = presenceTimes.inactivityMs(60);

export const reporting: PresenceRules = {
  reportsConnections: true,
  inactivityTimeoutMs: silenceMs,
  sessionSilenceMs: 24 * 60 * minute,
  offlineGraceMs: 5 * second,
  isDisabled: false,
  announceFromMs: 0,
};
export const silent: PresenceRules = { ...reporting, reportsConnections: false };

export const connected = (at: number): PresenceEvent => ({ kind: 'connected', sessionStartedAtMs: start + at });
export const disconnected = (sessionAt: number | null, at: number, reason = 'tcp_closed'): PresenceEvent => ({
  kind: 'disconnected',
  sessionStartedAtMs: sessionAt === null ? null : start + sessionAt,
  endedAtMs: start + at,
  reason,
});
export const announced = (status: 'online' | 'offline', at: number): PresenceEvent => ({
  kind: 'announced',
  status,
  atMs: start + at,
});
export const message = (at: number): PresenceEvent => ({ kind: 'message', atMs: start + at });
/** To be confirmed within a minute. */
export const doubted = (before: number, confirmWithinMs = minute): PresenceEvent => ({
  kind: 'doubted',
  beforeMs: start + before,
  confirmWithinMs,
});
export const authenticated: PresenceEvent = { kind: 'authenticated' };
export const due: PresenceEvent = { kind: 'due' };
