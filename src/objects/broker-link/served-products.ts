// Which products the broker session of a share is known to have subscriptions for, and the questions to the bridge about
// others. Where the uplink has one share nobody asks: its bridge subscribes to all devices.
import type { WorkerFrame } from '../../protocol/bridge.ts';

type Ask = (frame: Extract<WorkerFrame, { type: 'product' }>) => void;

/** An activation waits for it. */
const answerWithinMs = 2_000;

export class ServedProducts {
  readonly #storage: SyncKvStorage;
  readonly #asked = new Map<string, (isServed: boolean) => void>();

  constructor(storage: SyncKvStorage) {
    this.#storage = storage;
  }

  /** @param ask sends to the active bridge; undefined where none has its broker */
  async serve(productKey: string, ask: Ask | undefined): Promise<boolean> {
    const key = `served ${productKey}`;
    if (this.#storage.get(key) === true) return true;
    if (ask === undefined) return false;
    const id = crypto.randomUUID();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#asked.set(id, resolve);
    ask({ type: 'product', id, productKey });
    const timer = setTimeout(() => resolve(false), answerWithinMs);
    try {
      const isServed = await promise;
      // A session keeps its subscriptions, and whoever takes it over renews them.
      if (isServed) this.#storage.put(key, true);
      return isServed;
    } finally {
      clearTimeout(timer);
      this.#asked.delete(id);
    }
  }

  answer(id: string, isServed: boolean): void {
    this.#asked.get(id)?.(isServed);
  }
}
