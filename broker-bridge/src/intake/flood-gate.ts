// What a device sends beyond its limit: of each topic the latest message is kept, in memory, until the device may send
// again, so that the last of a burst takes effect; those before it are dropped and counted.
import { DeviceRates, type RateLimits } from './device-rates.ts';
import type { DroppedMessages } from './dropped-messages.ts';
import type { Metrics } from '../metrics.ts';

type Held<T> = { message: T; timer: NodeJS.Timeout };

export class FloodGate<T extends { topic: string }> {
  readonly #rates: DeviceRates;
  readonly #dropped: DroppedMessages;
  readonly #metrics: Metrics;
  readonly #onReleased: (message: T) => void;
  /** By topic, which belongs to one device. */
  readonly #held = new Map<string, Held<T>>();

  constructor(limits: RateLimits, dropped: DroppedMessages, metrics: Metrics, onReleased: (message: T) => void) {
    this.#rates = new DeviceRates(limits);
    this.#dropped = dropped;
    this.#metrics = metrics;
    this.#onReleased = onReleased;
  }

  /** Nobody read the broker's session for so long, until now. */
  noteAbsence(ms: number): void {
    this.#rates.noteAbsence(ms, Date.now());
  }

  /** True where the message may go on; otherwise it is kept for later, until a newer one of its topic comes. */
  admit(message: T): boolean {
    const { topic } = message;
    const device = deviceOf(topic);
    const isAdmitted = this.#rates.take(device, Date.now());
    const held = this.#held.get(topic);
    if (held !== undefined) {
      this.#dropped.note(device, topic);
      this.#metrics.messagesDropped.inc();
    }
    if (isAdmitted) {
      clearTimeout(held?.timer);
      this.#held.delete(topic);
    } else if (held === undefined) this.#held.set(topic, { message, timer: this.#releaseLater(device, topic) });
    else held.message = message;
    return isAdmitted;
  }

  /** Lets go on what is kept, whatever the limit. */
  releaseAll(): void {
    for (const [topic, { message, timer }] of this.#held) {
      clearTimeout(timer);
      this.#held.delete(topic);
      this.#onReleased(message);
    }
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
      this.#onReleased(held.message);
    } else held.timer = this.#releaseLater(device, topic);
  }
}

/** `/sys/{productKey}/{deviceId}` */
export function deviceOf(topic: string): string {
  return topic.split('/', 4).join('/');
}
