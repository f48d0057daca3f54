// Notices that this process was suspended: stopped, paused with its machine, or starved of processor time.
// What follows from that is not decided here. The monotonic clock of Linux stands still while the machine sleeps, so the
// time of day is compared as well; setting that forward by hand looks like a suspension.

const tickMs = 500;
/** The Worker promotes another bridge 9 s after the last ping, and pings are 5 s apart: 4 s can be enough. */
const noticedAfterMs = 3000;

export class SuspensionWatch {
  readonly #onNoticed: (suspendedForMs: number) => void;
  #lastTickAtMs = 0;
  #lastTickTimeMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onNoticed: (suspendedForMs: number) => void) {
    this.#onNoticed = onNoticed;
  }

  start(): void {
    this.#noteTick();
    this.#timer ??= setInterval(() => this.check(), tickMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Call it before acting on data that waited to be read, too: that may be handled before the timer. */
  check(): void {
    if (this.#timer === undefined) return;
    const sinceMs = Math.max(performance.now() - this.#lastTickAtMs, Date.now() - this.#lastTickTimeMs);
    this.#noteTick();
    if (sinceMs > noticedAfterMs) this.#onNoticed(sinceMs);
  }

  #noteTick(): void {
    this.#lastTickAtMs = performance.now();
    this.#lastTickTimeMs = Date.now();
  }
}
