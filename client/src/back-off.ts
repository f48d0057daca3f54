// How long to wait before the next attempt: growing, and spread at random, because all clients lose their sockets together
// when the service is deployed.

export type BackOffOptions = {
  /** Before the first attempt, at most. */
  firstMs?: number;
  maxMs?: number;
};

/** A connection that lasted so long counts as a success: the next wait is short again. */
const stableAfterMs = 10_000;

export class BackOff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #failures = 0;

  constructor({ firstMs = 1_000, maxMs = 30_000 }: BackOffOptions = {}) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
  }

  /** @param lastedMs how long the connection that was lost had been in use */
  nextMs(lastedMs: number): number {
    if (lastedMs >= stableAfterMs) this.#failures = 0;
    const mostMs = Math.min(this.#maxMs, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return mostMs * Math.random();
  }
}
