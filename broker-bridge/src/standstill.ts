// Notices that this process stood still: stopped, suspended with its machine, starved. Whoever waits for it may have
// given it up meanwhile. It must not decide what follows from that.

const tickMs = 500;
/** The Worker gives up a bridge 9 s after its last ping, and 5 s lie between two: 4 s without a turn can be enough. */
const noticedAfterMs = 3000;

export class Standstill {
  readonly #onNoticed: () => void;
  #lastTurnAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(onNoticed: () => void) {
    this.#onNoticed = onNoticed;
  }

  start(): void {
    this.#lastTurnAtMs = performance.now();
    this.#timer ??= setInterval(() => this.check(), tickMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** To be called before acting on what has waited to be read as well: that may come ahead of the timer. */
  check(): void {
    if (this.#timer === undefined) return;
    const stoodMs = performance.now() - this.#lastTurnAtMs;
    this.#lastTurnAtMs = performance.now();
    if (stoodMs > noticedAfterMs) this.#onNoticed();
  }
}
