// How long to wait before the next attempt: full jitter, so that many bridges do not come back in step.
// It keeps no timer and knows nothing of what is attempted.

export class BackOff {
  readonly #baseMs: number;
  readonly #capMs: number;
  #failures = 0;

  constructor(options: { baseMs: number; capMs: number }) {
    this.#baseMs = options.baseMs;
    this.#capMs = options.capMs;
  }

  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and answers the milliseconds to wait: anywhere between 0 and a ceiling that doubles. */
  nextDelayMs(): number {
    const ceilingMs = Math.min(this.#capMs, this.#baseMs * 2 ** Math.min(this.#failures, 20));
    this.#failures += 1;
    return Math.random() * ceilingMs;
  }

  reset(): void {
    this.#failures = 0;
  }
}
