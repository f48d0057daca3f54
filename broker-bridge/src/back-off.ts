// How long to wait before the next attempt: full jitter, so that many bridges do not retry at the same moment.
// It keeps no timer and knows nothing of what is attempted.

export class BackOff {
  readonly #baseMs: number;
  readonly #capMs: number;
  #failures = 0;

  constructor({ baseMs, capMs }: { baseMs: number; capMs: number }) {
    this.#baseMs = baseMs;
    this.#capMs = capMs;
  }

  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and answers a random delay below a limit that doubles with each one. */
  nextDelayMs(): number {
    const limitMs = Math.min(this.#capMs, this.#baseMs * 2 ** Math.min(this.#failures, 20));
    this.#failures += 1;
    return Math.random() * limitMs;
  }

  reset(): void {
    this.#failures = 0;
  }
}
