// Estimates the Worker's clock, by which a command expires. Pure: times are passed in.
// A machine whose own clock is wrong must not publish commands that the Worker has given up.

export class WorkerClock {
  /** The Worker's time minus ours, as seen on the quickest way here so far: too small by that way's duration. */
  #offsetMs: number | null = null;
  #shortestRoundTripMs: number | null = null;

  /** A frame that left the Worker at `workerNowMs` arrived. */
  noteFrame(workerNowMs: number, nowMs: number): void {
    const seenMs = workerNowMs - nowMs;
    this.#offsetMs = this.#offsetMs === null ? seenMs : Math.max(this.#offsetMs, seenMs);
  }

  noteRoundTrip(durationMs: number): void {
    this.#shortestRoundTripMs =
      this.#shortestRoundTripMs === null ? durationMs : Math.min(this.#shortestRoundTripMs, durationMs);
  }

  /** A new connection measures anew: our clock may have been set, or drifted, since the last one. */
  forget(): void {
    this.#offsetMs = null;
    this.#shortestRoundTripMs = null;
  }

  nowMs(ourNowMs: number): number {
    return ourNowMs + (this.#offsetMs ?? 0) + (this.#shortestRoundTripMs ?? 0) / 2;
  }
}
