// Notices that messages wait and none leaves the spool, for longer than is usual, and says so once, and once when it is
// over. It must not decide when anything is sent.
import type { z } from 'zod';
import type { stallSchema } from '../../../src/protocol/bridge.ts';
import type { Log } from '../../../node-service/log.ts';
import type { UplinkProgress } from './progress.ts';

type Stall = z.infer<typeof stallSchema>;

const lookEveryMs = 1000;

export class StallWatch {
  readonly #progress: UplinkProgress;
  readonly #afterMs: number;
  readonly #log: Log;
  readonly #onChange: (stall: Stall | null) => void;
  #reported: Stall | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(progress: UplinkProgress, afterMs: number, log: Log, onChange: (stall: Stall | null) => void) {
    this.#progress = progress;
    this.#afterMs = afterMs;
    this.#log = log;
    this.#onChange = onChange;
  }

  start(): void {
    this.#timer = setInterval(() => this.#look(), lookEveryMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Null while the uplink moves, or has not stood for long. */
  get stall(): Stall | null {
    const sinceMs = this.#progress.standsSinceMs;
    if (sinceMs === null || Date.now() - sinceMs < this.#afterMs) return null;
    return { reason: this.#progress.reason, sinceMs };
  }

  get stalledSeconds(): number {
    const { stall } = this;
    return stall === null ? 0 : Math.round((Date.now() - stall.sinceMs) / 1000);
  }

  /** Says how it is to somebody who does not know. */
  report(): void {
    this.#reported = this.stall;
    this.#onChange(this.#reported);
  }

  #look(): void {
    const { stall, stalledSeconds } = this;
    if (stall?.reason === this.#reported?.reason && stall?.sinceMs === this.#reported?.sinceMs) return;
    if (stall === null) this.#log.info('the uplink moves again');
    else {
      const { reason } = stall;
      this.#log.error('the uplink stands still: messages wait in the spool', { alarm: true, reason, stalledSeconds });
    }
    this.report();
  }
}
