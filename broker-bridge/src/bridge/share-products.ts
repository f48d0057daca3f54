// The products of one share of the uplink, as the Worker names them: what its bridge subscribes to. Where there is one share,
// that is all devices and nobody is asked. It must not decide when to subscribe.
import { setTimeout as wait } from 'node:timers/promises';
import {
  shareParameter,
  shareProductsAnswerSchema,
  shareProductsPath,
  uplinkFilters,
  uplinkFiltersOf,
} from '../../../src/protocol/bridge.ts';
import { BackOff } from '../../../node-service/back-off.ts';
import { describeError, type Log } from '../../../node-service/log.ts';

type Options = { workerUrl: string; secret: string; share: number; shares: number; log: Log };

const answerTimeoutMs = 10_000;

export class ShareProducts {
  readonly #options: Options;
  readonly #keys = new Set<string>();

  constructor(options: Options) {
    this.#options = options;
  }

  get keys(): readonly string[] {
    return [...this.#keys];
  }

  filters(): readonly string[] {
    return this.#options.shares === 1 ? uplinkFilters : [...this.#keys].flatMap(uplinkFiltersOf);
  }

  /** A product that was made meanwhile. */
  add(productKey: string): void {
    this.#keys.add(productKey);
  }

  /** Resolves when all are known; tries again for as long as `isWanted`. */
  async load(isWanted: () => boolean): Promise<void> {
    if (this.#options.shares > 1) await this.loadKeys(isWanted);
  }

  /** The same, where there is one share as well. */
  async loadKeys(isWanted: () => boolean): Promise<void> {
    const { share, log } = this.#options;
    const backOff = new BackOff({ baseMs: 200, capMs: 5_000 });
    while (isWanted()) {
      try {
        await this.#read();
        log.info('products of the share', { share, products: this.#keys.size });
        return;
      } catch (error) {
        const retryInMs = backOff.nextDelayMs();
        log.warn('the products of the share cannot be read', { cause: describeError(error), retryInMs });
        await wait(retryInMs, undefined, { ref: false });
      }
    }
  }

  async #read(): Promise<void> {
    const { workerUrl, secret, share } = this.#options;
    for (let after: number | null = 0; after !== null;) {
      const response = await fetch(`${workerUrl}${shareProductsPath}?${shareParameter}=${share}&after=${after}`, {
        headers: { authorization: `Bearer ${secret}` },
        signal: AbortSignal.timeout(answerTimeoutMs),
      });
      if (!response.ok) throw new Error(`status ${response.status}`);
      const { data } = shareProductsAnswerSchema.parse(await response.json());
      for (const productKey of data.productKeys) this.#keys.add(productKey);
      after = data.next;
    }
  }
}
