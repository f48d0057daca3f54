// Estimates the Worker's clock, by which a command expires. Pure: times are passed in.
// A machine whose own clock is wrong must not publish commands that have expired at the Worker.

export class WorkerClock {
  /** The Worker's time minus ours, from the fastest frame so far: too small by the time that frame took. */
  #offsetMs = -Infinity;
  #shortestRoundTripMs = Infinity;

  /** A frame that left the Worker at `workerNowMs` arrived. */
  noteFrame(workerNowMs: number, nowMs: number): void {
    this.#offsetMs = Math.max(this.#offsetMs, workerNowMs - nowMs);
  }

  noteRoundTrip(durationMs: number): void {
    this.#shortestRoundTripMs = Math.min(this.#shortestRoundTripMs, durationMs);
  }

  /** A new connection measures anew: our clock may have been set, or drifted, since the last one. */
  reset(): void {
    this.#offsetMs = -Infinity;
    this.#shortestRoundTripMs = Infinity;
  }

  nowMs(ourNowMs: number): number {
    const offsetMs = Number.isFinite(this.#offsetMs) ? this.#offsetMs : 0;
    const roundTripMs = Number.isFinite(this.#shortestRoundTripMs) ? this.#shortestRoundTripMs : 0;
    return ourNowMs + offsetMs + roundTripMs / 2;
  }
}
