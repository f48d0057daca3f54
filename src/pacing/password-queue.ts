// Hashes one password at a time. A hash takes 100 ms in which nothing else runs in the isolate, so that each is followed by
// a rest for other requests. The queue is short: a flood of logins is refused, not stored. Memory only, by isolate.
import { finishInBackground, runInBackground } from '../context.ts';
import type { Config } from '../config.ts';
import { rememberNewest } from '../domain/newest.ts';
import { rateLimited } from '../domain/refusal.ts';

export type QueueSizes = {
  /** Places for known clients, and as many for strangers. */
  waiting: number;
  /** Strangers of one address: a flood from there leaves room for others. */
  waitingPerAddress: number;
  waitMs: number;
  restMs: number;
};

/** `isKnown`: the client logged in before. Known clients go before strangers and do not share their places. */
export type HashClient = { isKnown: boolean; address: string };

type Waiting = HashClient & { start: (turn: undefined) => void };

const retryAfterSeconds = 2;

export class PasswordQueue {
  readonly #sizes: QueueSizes;
  readonly #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(sizes: QueueSizes) {
    this.#sizes = sizes;
  }

  /** Call it before work that precedes the hash. @throws RefusedError `rate_limited` if too many wait */
  refuseIfFull({ isKnown, address }: HashClient): void {
    const rivals = this.#waiting.filter((waiting) => waiting.isKnown === isKnown);
    const ofAddress = rivals.filter((waiting) => waiting.address === address);
    const isFull = rivals.length >= this.#sizes.waiting;
    if (isFull || (!isKnown && ofAddress.length >= this.#sizes.waitingPerAddress))
      throw rateLimited('password_queue', retryAfterSeconds);
  }

  /** @throws RefusedError `rate_limited` if too many wait, or if the turn does not come in time */
  async run<T>(client: HashClient, hash: () => Promise<T>): Promise<T> {
    if (this.#isBusy) this.refuseIfFull(client);
    // Finish it if the client leaves, too: otherwise nobody would have a turn after it.
    return finishInBackground(this.#runInTurn(client, hash));
  }

  async #runInTurn<T>(client: HashClient, hash: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await this.#waitForTurn(client);
    this.#isBusy = true;
    try {
      return await hash();
    } finally {
      runInBackground('rest between two passwords', this.#restAndHandOn());
    }
  }

  async #waitForTurn(client: HashClient): Promise<void> {
    const { promise: turn, resolve: start } = Promise.withResolvers<undefined>();
    const waiting = { ...client, start };
    const firstStranger = this.#waiting.findIndex(({ isKnown }) => !isKnown);
    this.#waiting.splice(client.isKnown && firstStranger >= 0 ? firstStranger : this.#waiting.length, 0, waiting);
    // The timer also keeps this request alive for the runtime, because another request ends the wait.
    await Promise.race([turn, scheduler.wait(this.#sizes.waitMs)]);
    const index = this.#waiting.indexOf(waiting);
    // Both may happen at once: who left the list has the turn.
    if (index < 0) return;
    this.#waiting.splice(index, 1);
    throw rateLimited('password_queue', retryAfterSeconds);
  }

  async #restAndHandOn(): Promise<void> {
    if (this.#sizes.restMs > 0) await scheduler.wait(this.#sizes.restMs);
    const next = this.#waiting.shift();
    if (next === undefined) this.#isBusy = false;
    else next.start(undefined);
  }
}

const queues = {
  production: new PasswordQueue({ waiting: 8, waitingPerAddress: 2, waitMs: 5_000, restMs: 100 }),
  // Tests make many accounts at once, from one address.
  relaxed: new PasswordQueue({ waiting: 1_000, waitingPerAddress: 1_000, waitMs: 60_000, restMs: 0 }),
};

export function passwordQueueOf({ rateLimits }: Config): PasswordQueue {
  return queues[rateLimits];
}

const maxFamiliarClients = 10_000;
/** Digests of name and address of clients that gave the right password to this isolate. */
const familiarClients = new Map<string, true>();

export function isFamiliarClient(clientDigest: string): boolean {
  return familiarClients.has(clientDigest);
}

export function rememberClient(clientDigest: string): void {
  rememberNewest(familiarClients, clientDigest, true, maxFamiliarClients);
}
