// Gathers what one device has to push to relay shards: what comes while a push is under way goes together when it has ended.
// Keeps their order. Never holds anything back for longer than `gatherMs`.
import type { Subscription } from '../domain/device/subscriptions.ts';
import { mayListen, readFleets } from './fleet-listeners.ts';
import { pushToRelays, type RelayRun } from './relay-push.ts';

type Delivery = { run: RelayRun; subscriptions: readonly Subscription[] };

export class RelayPushes {
  readonly #env: Env;
  readonly #gatherMs: number;
  readonly #inBackground: (work: Promise<void>) => void;
  #waiting: Delivery[] | undefined;
  #asked: Promise<unknown> = Promise.resolve();

  constructor(env: Env, gatherMs: number, inBackground: (work: Promise<void>) => void) {
    this.#env = env;
    this.#gatherMs = gatherMs;
    this.#inBackground = inBackground;
  }

  add(deliveries: readonly Delivery[]): void {
    const wanted = deliveries.filter(({ run, subscriptions }) => subscriptions.length > 0 || mayListen(run.readers));
    if (wanted.length === 0) return;
    if (this.#waiting !== undefined) {
      this.#waiting.push(...wanted);
      return;
    }
    const pushed = this.#push(wanted);
    this.#inBackground(pushed);
    if (this.#gatherMs === 0) return;
    this.#waiting = [];
    this.#inBackground(this.#sendGathered(pushed));
  }

  async #sendGathered(first: Promise<void>): Promise<void> {
    for (let before = first; ;) {
      await Promise.race([before, scheduler.wait(this.#gatherMs)]);
      const gathered = this.#waiting ?? [];
      this.#waiting = gathered.length > 0 ? [] : undefined;
      if (gathered.length === 0) return;
      before = this.#push(gathered);
      this.#inBackground(before);
    }
  }

  /** In the order of the calls, although one may have to ask first who listens. */
  async #push(deliveries: readonly Delivery[]): Promise<void> {
    const before = this.#asked;
    const asked = before.then(() => readFleets(this.#env));
    this.#asked = asked;
    await pushToRelays(this.#env, deliveries, asked);
  }
}
