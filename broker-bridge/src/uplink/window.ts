// How many batches may be under way at once: enough to keep a distant Worker busy, and few enough that the messages of a
// device gather meanwhile. Pure: times are passed in.

const least = 3;
const most = 12;

export class UplinkWindow {
  #size = least;

  get size(): number {
    return this.#size;
  }

  /**
   * A full batch was answered, while as many as may be were under way.
   * @param answerMs from sending it to its answer
   * @param roundTripMs of the way alone; null where it is not known
   */
  noteAnswer(answerMs: number, roundTripMs: number | null): void {
    if (roundTripMs === null) return;
    const atWorkerMs = answerMs - roundTripMs;
    // Shorter than the way: the Worker waits for batches. Much longer: they wait for the Worker.
    if (atWorkerMs < roundTripMs / 2) this.#size = Math.min(most, this.#size + 1);
    else if (atWorkerMs > roundTripMs * 1.5) this.#size = Math.max(least, this.#size - 1);
  }
}
