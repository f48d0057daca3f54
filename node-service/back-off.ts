// How long to wait before the next attempt: full jitter, so that many bridges do not retry at the same moment.
// It keeps no timer and knows nothing of the attempts.

export class BackOff {
  readonly #limits: { baseMs: number; capMs: number };
  failures = 0;

  constructor(limits: { baseMs: number; capMs: number }) {
    this.#limits = limits;
  }

  /** Counts a failure. Answers a random delay below a limit that doubles with each failure. */
  nextDelayMs(): number {
    const { baseMs, capMs } = this.#limits;
    const limitMs = Math.min(capMs, baseMs * 2 ** Math.min(this.failures, 20));
    this.failures += 1;
    return Math.random() * limitMs;
  }

  reset(): void {
    this.failures = 0;
  }
}
