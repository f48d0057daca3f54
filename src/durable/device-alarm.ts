// The one alarm of a device: due at the earliest of what was planned and of its silence. Where silence is watched the
// alarm is also the record of the last sign of life, because moving it costs one row and a row of its own another.
// Decides nothing about presence.
import { readConfig } from '../config.ts';
import { lifeResolutionMs, silenceDueAtMs, type PresenceRules } from '../domain/presence.ts';
import type { DeviceState } from './device-state.ts';

export class DeviceAlarm {
  readonly #storage: DurableObjectStorage;
  readonly #env: Env;
  readonly #state: DeviceState;
  /** undefined until it was read. */
  #atMs: number | null | undefined;

  constructor(storage: DurableObjectStorage, env: Env, state: DeviceState) {
    this.#storage = storage;
    this.#env = env;
    this.#state = state;
  }

  /** To be awaited before the first change of the object's life: storage alone may not know the last sign of life. */
  async recall(rules: PresenceRules): Promise<void> {
    if (this.#atMs === undefined) this.#adopt(await this.#storage.getAlarm(), rules);
  }

  /** The alarm that was set for this moment runs: there is none any more. */
  start(scheduledAtMs: number, rules: PresenceRules): void {
    this.#adopt(scheduledAtMs, rules);
    this.#atMs = null;
  }

  /** Sets the alarm if it has to ring earlier, or if a sign of life has to be recorded. A flush has to follow. */
  arm(plannedAtMs: number | null, rules: PresenceRules): void {
    const current = this.#atMs ?? null;
    const silentAtMs = silenceDueAtMs(this.#state.live.presence, rules);
    const resolutionMs = lifeResolutionMs(readConfig(this.#env).broker.keepAliveSeconds);
    const isForSilence = silentAtMs !== null && silentAtMs <= (plannedAtMs ?? Infinity);
    const dueAtMs = isForSilence ? silentAtMs : plannedAtMs;
    // One that rings for nothing is cheaper than one that is taken back.
    const isEarlier = dueAtMs !== null && (current === null || current > dueAtMs);
    const isRecord = isForSilence && this.#state.live.isAlarmForSilence;
    const isRecordBehind = isRecord && silentAtMs - (current ?? 0) >= resolutionMs;
    if (dueAtMs !== null && (isEarlier || isRecordBehind)) this.#set(dueAtMs, isForSilence);
    else if (silentAtMs !== null && !isRecord) this.#state.keepLife(resolutionMs);
  }

  #set(dueAtMs: number, isForSilence: boolean): void {
    if (this.#state.live.isAlarmForSilence !== isForSilence) this.#state.change({ isAlarmForSilence: isForSilence });
    this.#atMs = dueAtMs;
    void this.#storage.setAlarm(dueAtMs);
  }

  #adopt(atMs: number | null, rules: PresenceRules): void {
    // Another call may have been faster while this one waited, or the device gone.
    if (this.#atMs !== undefined || !this.#state.isProvisioned) return;
    this.#atMs = atMs;
    const { presence, isAlarmForSilence } = this.#state.live;
    if (atMs === null || !isAlarmForSilence || !presence.isOnline) return;
    const seenAtMs = Math.min(atMs - rules.silenceTimeoutMs, Date.now());
    if (seenAtMs <= (presence.lastOnlineAtMs ?? 0)) return;
    this.#state.touch({ presence: { ...presence, lastOnlineAtMs: seenAtMs } });
  }
}
