// Notices that this process was suspended: stopped, paused with its machine, or starved of processor time.
// What follows from that is not decided here.

const tickMs = 500;
/** The Worker promotes another bridge 9 s after the last ping, and pings are 5 s apart: 4 s can be enough. */
const noticedAfterMs = 3000;

export class SuspensionWatch {
  readonly #onNoticed: () => void;
  #lastTickAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onNoticed: () => void) {
    this.#onNoticed = onNoticed;
  }

  start(): void {
    this.#lastTickAtMs = performance.now();
    this.#timer ??= setInterval(() => this.check(), tickMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Call it before acting on data that waited to be read, too: that may be handled before the timer. */
  check(): void {
    if (this.#timer === undefined) return;
    const sinceMs = performance.now() - this.#lastTickAtMs;
    this.#lastTickAtMs = performance.now();
    if (sinceMs > noticedAfterMs) this.#onNoticed();
  }
}
