// Replies of the broker itself to what the Worker publishes, mosquitto's to its commands: subscribes to their topics when
// first asked, and finds the one message that is waited for. It understands none of them.
import { maxReplyLength } from '../../../src/protocol/bridge.ts';

type Waiting = { topic: string; containing: string; finish: (text: string | undefined) => void };

export class Replies {
  readonly #subscribe: (topic: string) => Promise<boolean>;
  readonly #subscribed = new Map<string, Promise<boolean>>();
  readonly #waiting = new Set<Waiting>();
  readonly #ended = Promise.withResolvers<false>();

  /** `subscribe` resolves with whether the broker granted the topic. */
  constructor(subscribe: (topic: string) => Promise<boolean>) {
    this.#subscribe = subscribe;
  }

  /** Asks the broker once for each topic, and again if it refused. */
  async subscribe(topic: string): Promise<boolean> {
    const granted = this.#subscribed.get(topic) ?? this.#subscribe(topic);
    this.#subscribed.set(topic, granted);
    if (await Promise.race([granted, this.#ended.promise])) return true;
    this.#subscribed.delete(topic);
    return false;
  }

  /** `text` resolves with the reply, or with nothing after `withinMs`, a cancellation or the end of the connection. */
  await({ topic, containing, withinMs }: { topic: string; containing: string; withinMs: number }) {
    const { promise: text, resolve } = Promise.withResolvers<string | undefined>();
    const finish = (reply: string | undefined): void => {
      clearTimeout(timer);
      this.#waiting.delete(waiting);
      resolve(reply);
    };
    const waiting = { topic, containing, finish };
    const timer = setTimeout(() => finish(undefined), withinMs);
    this.#waiting.add(waiting);
    return { text, cancel: () => finish(undefined) };
  }

  take(topic: string, text: string): void {
    if (text.length > maxReplyLength) return;
    for (const waiting of this.#waiting) {
      if (waiting.topic === topic && text.includes(waiting.containing)) waiting.finish(text);
    }
  }

  end(): void {
    this.#ended.resolve(false);
    for (const { finish } of [...this.#waiting]) finish(undefined);
  }
}
