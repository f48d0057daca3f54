// How long to wait before the next attempt: full jitter, so that many bridges do not retry at the same moment.
// It keeps no timer and knows nothing of the attempts.

export type BackOff = ReturnType<typeof createBackOff>;

export function createBackOff({ baseMs, capMs }: { baseMs: number; capMs: number }) {
  return {
    /** Since the last success: the caller sets it to 0 then. */
    failures: 0,
    /** Counts a failure. Answers a random delay below a limit that doubles with each failure. */
    nextDelayMs(): number {
      const limitMs = Math.min(capMs, baseMs * 2 ** Math.min(this.failures, 20));
      this.failures += 1;
      return Math.random() * limitMs;
    },
  };
}
