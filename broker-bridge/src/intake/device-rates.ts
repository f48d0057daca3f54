// How many messages a device may send: a token bucket each, kept as the time at which it would be full again (GCRA), so
// that a device that sends little costs nothing. It must not decide what happens to a message beyond it.

export type RateLimits = { messagesPerSecond: number; burst: number };

const sweepEveryMs = 60_000;
/** After a longer absence devices may have sent more than they are allowed to make up for. */
const maxAbsenceMs = 3_600_000;

export class DeviceRates {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  readonly #fullAtMs = new Map<string, number>();
  #sweepAtMs = 0;
  #absence = { ms: 0, endedAtMs: 0 };

  constructor({ messagesPerSecond, burst }: RateLimits) {
    this.#intervalMs = 1000 / messagesPerSecond;
    this.#burstMs = burst * this.#intervalMs;
  }

  /** What devices sent while nobody read comes at once: that is no flood. */
  noteAbsence(ms: number, nowMs: number): void {
    this.#absence = { ms: Math.min(ms, maxAbsenceMs), endedAtMs: nowMs };
  }

  /** Whether the device may send a message now; if so, it counts. */
  take(device: string, nowMs: number): boolean {
    if (this.waitMs(device, nowMs) > 0) return false;
    this.#sweep(nowMs);
    const fullAtMs = Math.max(this.#fullAtMs.get(device) ?? 0, nowMs);
    this.#fullAtMs.set(device, fullAtMs + this.#intervalMs);
    return true;
  }

  /** How long the device has to wait until it may; 0 if it may now. */
  waitMs(device: string, nowMs: number): number {
    const fullInMs = Math.max(0, (this.#fullAtMs.get(device) ?? 0) - nowMs) + this.#intervalMs;
    const { ms, endedAtMs } = this.#absence;
    const creditMs = Math.max(0, ms - (nowMs - endedAtMs));
    return Math.max(0, fullInMs - this.#burstMs - creditMs);
  }

  #sweep(nowMs: number): void {
    if (nowMs < this.#sweepAtMs) return;
    this.#sweepAtMs = nowMs + sweepEveryMs;
    for (const [device, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(device);
  }
}
