// How fast clients of the local broker are served: publishes of one client, and logins of an address where many were refused.
// What is too fast waits, in order, and is not read from the connection meanwhile. Knows no topics and no passwords.
import { setTimeout as sleep } from 'node:timers/promises';
import { Buckets, fullBucket, takeInAdvance, type Bucket, type Rate } from '../../src/domain/token-bucket.ts';
import type { BrokerLimits } from './limits.ts';

const maxAddresses = 10_000;
const refusedLoginMs = 1_000;

export class PublishPace {
  readonly #rate: Rate;
  readonly #clients = new WeakMap<object, { bucket: Bucket; last: Promise<void> | undefined }>();

  constructor({ publishBurst, publishesPerSecond }: BrokerLimits) {
    this.#rate = { burst: publishBurst, perSecond: publishesPerSecond };
  }

  /** Calls `proceed` at once, or in its time and after those of the same client that wait. */
  run(client: object, proceed: () => void): void {
    const nowMs = performance.now();
    const paced = this.#clients.get(client) ?? { bucket: fullBucket(this.#rate, nowMs), last: undefined };
    this.#clients.set(client, paced);
    const waitMs = takeInAdvance(paced.bucket, this.#rate, Infinity, nowMs) ?? 0;
    if (waitMs === 0 && paced.last === undefined) {
      proceed();
      return;
    }
    const mine = Promise.all([paced.last, sleep(waitMs)]).then(() => {
      if (paced.last === mine) paced.last = undefined;
      proceed();
    });
    paced.last = mine;
  }
}

export class LoginPace {
  readonly #refusals: Buckets;
  readonly #heldUntilMs = new Map<string, number>();

  constructor({ refusedLoginBurst, refusedLoginsPerMinute }: BrokerLimits) {
    this.#refusals = new Buckets({ burst: refusedLoginBurst, perSecond: refusedLoginsPerMinute / 60 }, maxAddresses);
  }

  /** Before a login is decided: a moment's wait where too many of the address were refused. */
  async wait(address: string): Promise<void> {
    if ((this.#heldUntilMs.get(address) ?? 0) > performance.now()) await sleep(refusedLoginMs);
  }

  noteRefusal(address: string): void {
    const nowMs = performance.now();
    if (this.#refusals.take(address, nowMs)) return;
    for (const [other, untilMs] of this.#heldUntilMs) if (untilMs <= nowMs) this.#heldUntilMs.delete(other);
    this.#heldUntilMs.set(address, nowMs + 2 * refusedLoginMs);
  }
}
