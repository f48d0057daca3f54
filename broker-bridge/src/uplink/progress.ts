// Whether the uplink moves, and why not: what health and metrics show. It must not decide when anything is sent.
import type { StallReason } from '../../../src/protocol/bridge.ts';
import type { Spool } from '../spool/spool.ts';

export class UplinkProgress {
  readonly #spool: Spool;
  readonly #oldestReceivedAtMs: () => number;
  #lastDoneAtMs = Date.now();
  #trouble: StallReason = 'devices_not_served';

  /** `oldestReceivedAtMs`: of the messages that were handed out. */
  constructor(spool: Spool, oldestReceivedAtMs: () => number) {
    this.#spool = spool;
    this.#oldestReceivedAtMs = oldestReceivedAtMs;
  }

  /** A message left the spool. */
  noteDone(): void {
    this.#lastDoneAtMs = Date.now();
  }

  /** Why messages were not taken just now. */
  note(trouble: StallReason): void {
    this.#trouble = trouble;
  }

  get oldestAgeMs(): number {
    return Math.max(0, Date.now() - this.#oldestReceivedAtMs());
  }

  /** Since when messages wait while none leaves the spool; null where none waits. */
  get standsSinceMs(): number | null {
    if (this.#spool.depth === 0) return null;
    const oldestAtMs = this.#oldestReceivedAtMs();
    return Math.max(this.#lastDoneAtMs, oldestAtMs === Infinity ? 0 : oldestAtMs);
  }

  get reason(): StallReason {
    return this.#spool.isUnreadable ? 'spool_unreadable' : this.#trouble;
  }
}
