// Whether the uplink moves, and why not: what health and metrics show. Says once that messages wait and none leaves the spool
// for longer than is usual, and once that this is over. It must not decide when anything is sent.
import type { Log } from '../../../node-service/log.ts';
import type { StallReason, UplinkStall } from '../../../src/protocol/bridge.ts';
import type { Spool } from '../spool/spool.ts';

type Options = {
  spool: Spool;
  oldestReceivedAtMs: () => number;
  stalledAfterMs: number;
  log: Log;
  onStall: (stall: UplinkStall | null) => void;
};

const lookEveryMs = 1000;

export class UplinkProgress {
  /** Why nothing moves, if nothing does. */
  trouble: StallReason = 'devices_not_served';
  readonly #options: Options;
  #lastDoneAtMs = Date.now();
  #reported: UplinkStall | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.#look(), lookEveryMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  noteDone(): void {
    this.#lastDoneAtMs = Date.now();
  }

  get oldestAgeMs(): number {
    return Math.max(0, Date.now() - this.#options.oldestReceivedAtMs());
  }

  /** Null while the uplink moves, or has not stood for long. A disk that refuses counts at once: no message comes in. */
  get stall(): UplinkStall | null {
    const { spool, oldestReceivedAtMs, stalledAfterMs } = this.#options;
    if (spool.refusedSinceMs !== null) return { reason: 'spool_full', sinceMs: spool.refusedSinceMs };
    if (spool.depth === 0) return null;
    const oldestAtMs = oldestReceivedAtMs();
    const sinceMs = Math.max(this.#lastDoneAtMs, oldestAtMs === Infinity ? 0 : oldestAtMs);
    if (Date.now() - sinceMs < stalledAfterMs) return null;
    return { reason: spool.isUnreadable ? 'spool_unreadable' : this.trouble, sinceMs };
  }

  get stalledSeconds(): number {
    const { stall } = this;
    return stall === null ? 0 : Math.round((Date.now() - stall.sinceMs) / 1000);
  }

  /** Tells the Worker, which does not know after a new link. */
  report(): void {
    this.#reported = this.stall;
    this.#options.onStall(this.#reported);
  }

  #look(): void {
    const { stall, stalledSeconds } = this;
    if (stall?.reason === this.#reported?.reason && stall?.sinceMs === this.#reported?.sinceMs) return;
    const { log } = this.#options;
    if (stall === null) log.info('the uplink moves again');
    else {
      const { reason } = stall;
      log.error('the uplink stands still: messages wait in the spool', { alarm: true, reason, stalledSeconds });
    }
    this.report();
  }
}
