// Presence of one device in effect: applies what domain/presence.ts decides, keeps the copy in D1, and says on the
// status topic what the device did not say itself. Arms no alarm: it tells the session when it wants to be called.
import { readConfig } from '../config.ts';
import { writeProjection } from '../db/devices.ts';
import { decidePresence, silenceTimeoutMs, type PresenceEvent, type PresenceRules } from '../domain/presence.ts';
import { parseJson } from '../domain/property-report.ts';
import { topicOf } from '../domain/topics.ts';
import { topicActions } from '../protocol/mqtt.ts';
import { describeError, log } from '../log.ts';
import type { DeviceState } from './device-state.ts';
import { pushToRelays, type RelayRun } from './relay-push.ts';
import { callBrokerLink } from './stubs.ts';

const retryAfterMs = 10_000;
/** The broker gets an announcement for this long; after that it is old news. */
const announcementLifeMs = 60_000;
const publishWithinMs = 4_500;
const rememberedAnnouncements = 8;

export class DevicePresence {
  readonly #env: Env;
  readonly #state: DeviceState;
  #retryAtMs: number | null = null;
  #copying: Promise<void> | undefined;
  #isPublishing = false;

  constructor(env: Env, state: DeviceState) {
    this.#env = env;
    this.#state = state;
  }

  /** Whether the device has come back by this event. */
  apply(event: PresenceEvent): boolean {
    const nowMs = Date.now();
    const before = this.#state.live.presence;
    const { state: presence, transition, tell, hasReturned } = decidePresence(before, event, this.rules, nowMs);
    // A sign of life alone is worth no row; the alarm records it where silence is watched.
    const isSignOfLife = (Object.keys(presence) as (keyof typeof presence)[]).every(
      (member) => member === 'lastOnlineAtMs' || presence[member] === before[member],
    );
    if (isSignOfLife) this.#state.touch({ presence });
    else this.#state.change({ presence });
    if (transition !== undefined) {
      const number = this.#state.live.transitions + 1;
      this.#state.change({ transitions: number });
      const { isOnline, reason, detail, atMs } = transition;
      const status = isOnline ? 'online' : 'offline';
      this.#state.storage.addTransition(number, { status, reason, detail, time: atMs });
      this.markCopyBehind();
    }
    if (tell !== undefined) this.#announce(tell, nowMs);
    return hasReturned;
  }

  /** D1 is to be told what the session knows. */
  markCopyBehind(): void {
    this.#state.change({ copyVersion: this.#state.live.copyVersion + 1, isCopyBehind: true });
    this.#state.afterFlush(() => (this.#copying = this.#copyToDatabase()));
  }

  /** When D1 has had its chance to take the copy. */
  async copied(): Promise<void> {
    await this.#copying;
  }

  /** Everything that is due: silence, held-back announcements, a copy D1 has not taken, news the broker has not. */
  onAlarm(): void {
    this.#retryAtMs = null;
    this.apply({ kind: 'due' });
    if (this.#state.live.isCopyBehind) this.#state.afterFlush(() => this.#copyToDatabase());
    if (this.#pendingAnnouncement() !== undefined) this.#state.afterFlush(() => this.#publishAnnouncement());
  }

  /** When to be called for what is not silence: that one the alarm reckons with by itself. */
  dueAtMs(): number | null {
    const { live } = this.#state;
    const { tellAtMs } = live.presence;
    const isRetrying = live.isCopyBehind || this.#pendingAnnouncement() !== undefined;
    // Spread, so that not all devices knock at a database at once that comes back after an outage.
    if (isRetrying) this.#retryAtMs ??= Date.now() + retryAfterMs * (1 + Math.random());
    else this.#retryAtMs = null;
    const times = [tellAtMs, this.#retryAtMs].filter((time) => time !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Whether a status message is the service's own, heard back through the bridge. */
  isEcho(payload: string): boolean {
    const heard = JSON.stringify(parseJson(payload));
    return this.#state.live.announcements.some(({ status, time }) => JSON.stringify({ status, time }) === heard);
  }

  get rules(): PresenceRules {
    const { broker } = readConfig(this.#env);
    const { offlineGraceSeconds, isDisabled } = this.#state.record;
    return {
      reportsConnections: broker.reportsConnections,
      silenceTimeoutMs: silenceTimeoutMs(broker.keepAliveSeconds),
      offlineGraceMs: offlineGraceSeconds * 1000,
      isDisabled,
    };
  }

  #announce(status: 'online' | 'offline', nowMs: number): void {
    const { announcements, listeners } = this.#state.live;
    const announcement = { status, time: nowMs, isPublished: false };
    this.#state.change({ announcements: [...announcements, announcement].slice(-rememberedAnnouncements) });
    const payload = JSON.stringify({ status, time: nowMs });
    const run: RelayRun = { deviceId: this.#state.record.deviceId, topic: this.#topic, payloads: [payload] };
    this.#state.afterFlush(() => pushToRelays(this.#env, [{ run, listeners }]));
    this.#state.afterFlush(() => this.#publishAnnouncement());
  }

  /** Publishes the newest announcement, the only one that is still news. Tried again by the alarm. */
  async #publishAnnouncement(): Promise<void> {
    if (this.#isPublishing) return;
    this.#isPublishing = true;
    let pending = this.#pendingAnnouncement();
    while (pending !== undefined) {
      const { time } = pending;
      await this.#publish(pending);
      pending = this.#pendingAnnouncement();
      // A newer one came meanwhile; the same one again means that the broker is not there.
      if (pending?.time === time) break;
    }
    this.#isPublishing = false;
  }

  async #publish({ status, time }: { status: string; time: number }): Promise<void> {
    const payload = JSON.stringify({ status, time });
    const outcome = await callBrokerLink(this.#env, 'publish', 'once', (link) =>
      link.publish({ topic: this.#topic, payload, expiresAtMs: Date.now() + publishWithinMs }),
    ).catch(() => ({ ok: false as const }));
    if (!outcome.ok || !this.#state.isProvisioned) return;
    const announcements = this.#state.live.announcements.map((announcement) =>
      announcement.time === time ? { ...announcement, isPublished: true } : announcement,
    );
    this.#state.change({ announcements });
    this.#state.flush();
  }

  #pendingAnnouncement() {
    const newest = this.#state.isProvisioned ? this.#state.live.announcements.at(-1) : undefined;
    const isPending = newest !== undefined && !newest.isPublished && newest.time + announcementLifeMs > Date.now();
    return isPending ? newest : undefined;
  }

  /** The mark stays set until D1 has the copy; the alarm tries again. */
  async #copyToDatabase(): Promise<void> {
    const { record, live } = this.#state;
    const { deviceId, name, isDisabled } = record;
    const { isOnline, lastOnlineAtMs } = live.presence;
    const connectionStatus = isOnline ? 1 : 2;
    const copy = { name, isDisabled, connectionStatus, lastOnlineAt: lastOnlineAtMs } as const;
    try {
      await writeProjection(this.#env.DB, deviceId, { ...copy, version: live.copyVersion });
    } catch (error) {
      log('warn', 'device copy not written', { deviceId, ...describeError(error) });
      return;
    }
    // Deleted, or changed again, while D1 was writing: then this was not the last word.
    if (!this.#state.isProvisioned || this.#state.live.copyVersion !== live.copyVersion) return;
    this.#state.change({ isCopyBehind: false });
    this.#state.flush();
  }

  get #topic(): string {
    return topicOf(this.#state.record, topicActions.status);
  }
}
