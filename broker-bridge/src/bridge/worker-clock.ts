// Estimates the Worker's clock, by which a command expires. Pure: times are passed in.
// A machine whose own clock is wrong must not publish commands that have expired at the Worker.

export class WorkerClock {
  /** The Worker's time minus ours, from the fastest frame so far: too small by the time that frame took. */
  #offsetMs: number | null = null;
  /** The shortest so far; null before one was measured. */
  roundTripMs: number | null = null;

  /** A frame that left the Worker at `workerNowMs` arrived. */
  noteFrame(workerNowMs: number, nowMs: number): void {
    this.#offsetMs = Math.max(this.#offsetMs ?? -Infinity, workerNowMs - nowMs);
  }

  noteRoundTrip(durationMs: number): void {
    this.roundTripMs = Math.min(this.roundTripMs ?? Infinity, durationMs);
  }

  nowMs(ourNowMs: number): number {
    return ourNowMs + (this.#offsetMs ?? 0) + (this.roundTripMs ?? 0) / 2;
  }
}
