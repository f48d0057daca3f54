// The messages of a device beyond its limit: of each topic the latest is kept in memory until the device may send again, so
// that the last of a burst takes effect. The earlier ones are dropped and counted, until the Worker has the count.
import { maxDroppedCounts } from '../../../src/protocol/bridge.ts';
import type { Metrics } from '../metrics.ts';
import type { SpooledMessage } from '../spool/spool.ts';
import { DeviceRates, type RateLimits } from './device-rates.ts';

type Held = { message: SpooledMessage; timer: NodeJS.Timeout };
type DroppedCount = { topic: string; count: number };

const reportEveryMs = 60_000;

export class FloodGate {
  /** Receives a message that was kept, once its device may send again. */
  onReleased: (message: SpooledMessage) => void = () => undefined;
  readonly #rates: DeviceRates;
  readonly #metrics: Metrics;
  /** By topic: a topic belongs to one device. */
  readonly #held = new Map<string, Held>();
  readonly #dropped = new Map<string, DroppedCount>();
  readonly #reportedAtMs = new Map<string, number>();

  constructor(limits: RateLimits, metrics: Metrics) {
    this.#rates = new DeviceRates(limits);
    this.#metrics = metrics;
  }

  /** Nobody read the broker's session for so long, until now. */
  noteAbsence(ms: number): void {
    this.#rates.noteAbsence(ms, Date.now());
  }

  /** True if the message may go on; otherwise it is kept for later, until a newer one of its topic comes. */
  admit(message: SpooledMessage): boolean {
    const { topic } = message;
    const device = deviceOf(topic);
    const isAdmitted = this.#rates.take(device, Date.now());
    const held = this.#held.get(topic);
    if (held !== undefined) this.#noteDropped(device, topic);
    if (isAdmitted) {
      clearTimeout(held?.timer);
      this.#held.delete(topic);
    } else if (held === undefined) this.#held.set(topic, { message, timer: this.#releaseLater(device, topic) });
    else held.message = message;
    return isAdmitted;
  }

  /** Releases every kept message, whatever the limit. */
  releaseAll(): void {
    for (const [topic, { message, timer }] of this.#held) {
      clearTimeout(timer);
      this.#held.delete(topic);
      this.onReleased(message);
    }
  }

  /**
   * The counts that are due now, for each device once a minute at most. They count as reported: a count whose batch is not
   * answered is lost.
   */
  takeDropped(nowMs: number): DroppedCount[] {
    for (const [device, atMs] of this.#reportedAtMs) {
      if (nowMs - atMs >= reportEveryMs) this.#reportedAtMs.delete(device);
    }
    const due = [...this.#dropped].filter(([device]) => !this.#reportedAtMs.has(device)).slice(0, maxDroppedCounts);
    for (const [device] of due) {
      this.#dropped.delete(device);
      this.#reportedAtMs.set(device, nowMs);
    }
    return due.map(([, count]) => count);
  }

  #noteDropped(device: string, topic: string): void {
    this.#metrics.messagesDropped.inc();
    const dropped = this.#dropped.get(device);
    if (dropped === undefined) this.#dropped.set(device, { topic, count: 1 });
    else dropped.count += 1;
  }

  #releaseLater(device: string, topic: string): NodeJS.Timeout {
    const waitMs = Math.ceil(this.#rates.waitMs(device, Date.now()));
    return setTimeout(() => this.#release(device, topic), waitMs);
  }

  #release(device: string, topic: string): void {
    const held = this.#held.get(topic);
    if (held === undefined) return;
    if (this.#rates.take(device, Date.now())) {
      this.#held.delete(topic);
      this.onReleased(held.message);
    } else held.timer = this.#releaseLater(device, topic);
  }
}

export function deviceOf(topic: string): string {
  return topic.split('/', 4).join('/');
}
