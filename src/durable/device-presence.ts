// Presence of one device in effect: applies what domain/presence.ts decides, keeps the copy in D1, and says on the
// status topic what the device did not say itself. The session's single alarm is armed here.
import { readConfig } from '../config.ts';
import { writePresenceCopy } from '../db/devices.ts';
import {
  decidePresence,
  presenceWakeAtMs,
  silenceTimeoutMs,
  type PresenceEvent,
  type PresenceRules,
} from '../domain/presence.ts';
import { parseJson } from '../domain/property-report.ts';
import { topicOf } from '../domain/topics.ts';
import type { DeviceState } from './device-state.ts';
import { pushToRelays } from './relay-push.ts';
import { brokerLink } from './stubs.ts';

/** Last-seen is written at most this often, and only where silence is watched. */
const lastSeenResolutionMs = 60_000;
const retryAfterMs = 10_000;
/** The broker gets an announcement for this long; after that it is old news. */
const announcementLifeMs = 60_000;
const rememberedAnnouncements = 4;

export class DevicePresence {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #state: DeviceState;
  #alarmAtMs: number | null | undefined;
  /** Heard since the object woke: before that, last-seen in storage may be behind by its resolution. */
  #hasHeard = false;
  #lastSeenSavedAtMs = 0;

  constructor(ctx: DurableObjectState, env: Env, state: DeviceState) {
    this.#ctx = ctx;
    this.#env = env;
    this.#state = state;
  }

  async apply(event: PresenceEvent): Promise<void> {
    const nowMs = Date.now();
    if (event.kind === 'message' || event.kind === 'announced') this.#hasHeard = true;
    const before = this.#state.live.presence;
    const { state: presence, transition, tell } = decidePresence(before, event, this.#rules(), nowMs);
    this.#state.touch({ presence });
    if (transition !== undefined) {
      const number = this.#state.live.transitions + 1;
      this.#state.touch({ transitions: number, isDirty: true });
      this.#state.storage.addTransition(number, {
        status: transition.isOnline ? 'online' : 'offline',
        reason: transition.reason,
        detail: transition.detail,
        time: transition.atMs,
      });
    }
    if (tell !== undefined) this.#announce(tell, nowMs);
    const isWorthARow =
      transition !== undefined ||
      tell !== undefined ||
      presence.told !== before.told ||
      presence.tellAtMs !== before.tellAtMs ||
      presence.sessionStartedAtMs !== before.sessionStartedAtMs ||
      this.#isLastSeenBehind();
    if (isWorthARow) {
      this.#lastSeenSavedAtMs = presence.lastOnlineAtMs ?? 0;
      this.#state.save();
    }
    if (transition !== undefined) this.#ctx.waitUntil(this.#copyToDatabase());
    await this.#armAlarm();
  }

  /** Everything that is due: silence, held-back announcements, a copy D1 has not taken, news the broker has not. */
  async onAlarm(): Promise<void> {
    this.#alarmAtMs = null;
    await this.apply({ kind: 'alarm' });
    if (this.#state.live.isDirty) await this.#copyToDatabase();
    await this.#publishAnnouncement();
    await this.#armAlarm();
  }

  /** Whether a status message is the service's own, heard back through the bridge. */
  isEcho(payload: string): boolean {
    const body = parseJson(payload);
    return this.#state.live.announcements.some(
      ({ status, time }) => JSON.stringify(body) === JSON.stringify({ status, time }),
    );
  }

  #announce(status: 'online' | 'offline', nowMs: number): void {
    const { announcements, listeners } = this.#state.live;
    const announcement = { status, time: nowMs, isPublished: false };
    this.#state.touch({ announcements: [...announcements, announcement].slice(-rememberedAnnouncements) });
    const message = {
      deviceId: this.#state.record.deviceId,
      topic: this.#topic,
      payload: JSON.stringify({ status, time: nowMs }),
    };
    this.#ctx.waitUntil(pushToRelays(this.#env, [{ message, listeners }]));
    this.#ctx.waitUntil(this.#publishAnnouncement());
  }

  /** Publishes the newest announcement, the only one that is still news. Tried again by the alarm. */
  async #publishAnnouncement(): Promise<void> {
    const pending = this.#pendingAnnouncement();
    if (pending === undefined) return;
    const { status, time } = pending;
    const outcome = await brokerLink(this.#env)
      .publish({ topic: this.#topic, payload: JSON.stringify({ status, time }), expiresAtMs: Date.now() + 4_500 })
      .catch(() => ({ ok: false as const }));
    if (!outcome.ok || !this.#state.isProvisioned) return;
    const announcements = this.#state.live.announcements.map((announcement) =>
      announcement.time === time ? { ...announcement, isPublished: true } : announcement,
    );
    this.#state.save({ announcements });
  }

  #pendingAnnouncement() {
    const newest = this.#state.isProvisioned ? this.#state.live.announcements.at(-1) : undefined;
    const isPending = newest !== undefined && !newest.isPublished && newest.time + announcementLifeMs > Date.now();
    return isPending ? newest : undefined;
  }

  /** The mark stays set until D1 has the copy; the alarm tries again. */
  async #copyToDatabase(): Promise<void> {
    const { record, live } = this.#state;
    const { isOnline, lastOnlineAtMs } = live.presence;
    try {
      await writePresenceCopy(this.#env.DB, record.deviceId, {
        connectionStatus: isOnline ? 1 : 2,
        version: live.transitions,
        lastOnlineAt: lastOnlineAtMs,
      });
    } catch {
      return;
    }
    // Deleted, or changed again, while D1 was writing: then this was not the last word.
    if (!this.#state.isProvisioned || this.#state.live.transitions !== live.transitions) return;
    this.#state.save({ isDirty: false });
  }

  /** The earliest of all that has to be looked at again. Moving an alarm costs a row, so it only ever moves closer. */
  async #armAlarm(): Promise<void> {
    if (!this.#state.isProvisioned) return;
    const needsRetry = this.#state.live.isDirty || this.#pendingAnnouncement() !== undefined;
    const wakeAtMs = presenceWakeAtMs(this.#state.live.presence, this.#rules());
    const times = [wakeAtMs, needsRetry ? Date.now() + retryAfterMs : null].filter((time) => time !== null);
    if (times.length === 0) return;
    const nextMs = Math.min(...times);
    if (this.#alarmAtMs === undefined) this.#alarmAtMs = await this.#ctx.storage.getAlarm();
    if (this.#alarmAtMs !== null && this.#alarmAtMs <= nextMs) return;
    this.#alarmAtMs = nextMs;
    await this.#ctx.storage.setAlarm(nextMs);
  }

  #isLastSeenBehind(): boolean {
    const { isOnline, lastOnlineAtMs } = this.#state.live.presence;
    if (this.#rules().reportsConnections || !isOnline) return false;
    return (lastOnlineAtMs ?? 0) - this.#lastSeenSavedAtMs >= lastSeenResolutionMs;
  }

  #rules(): PresenceRules {
    const { broker } = readConfig(this.#env);
    const unrecordedMs = this.#hasHeard ? 0 : lastSeenResolutionMs;
    return {
      reportsConnections: broker.reportsConnections,
      silenceTimeoutMs: silenceTimeoutMs(broker.keepAliveSeconds) + unrecordedMs,
      offlineGraceMs: this.#state.record.offlineGraceSeconds * 1000,
    };
  }

  get #topic(): string {
    return topicOf(this.#state.record, 'status');
  }
}
