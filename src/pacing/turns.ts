// Work that an isolate does a few at a time, so that a flood of it leaves room for other requests. Those that wait for their
// turn are limited. Knows nothing of the work.
import { finishInBackground, runInBackground } from '../background.ts';
import { RefusedError } from '../domain/refusal.ts';

const pollMs = 20;
const retryAfterSeconds = 2;

type Turn = { isFirst: boolean; key: number | undefined };
type Entry = {
  isFirst?: boolean;
  maxWaiting: number;
  /** At most `max` of those that wait have the same `key`; `limit` names the setting. */
  ofOne?: { key: number; max: number; limit: string };
};

export class Turns {
  readonly #limit: string;
  readonly #atOnce: number;
  readonly #waiting: Turn[] = [];
  #taken = 0;

  /** @param limit the name of the setting that bounds those who wait */
  constructor(limit: string, atOnce: number) {
    this.#limit = limit;
    this.#atOnce = atOnce;
  }

  /**
   * Runs `work` in its turn. Who `isFirst` goes before the others and waits in a queue of its own length.
   * @param pauseMs in which the place stays taken after the work; asked when that has ended
   * @throws RefusedError `rate_limited` where too many wait
   */
  async run<T>({ pauseMs, ...entry }: Entry & { pauseMs: () => number }, work: () => Promise<T>): Promise<T> {
    this.refuseWhereFull(entry);
    const turn = { isFirst: entry.isFirst ?? false, key: entry.ofOne?.key };
    // To its end, also when the client leaves: otherwise nobody would have a turn after it.
    return finishInBackground(this.#runInTurn(turn, pauseMs, work));
  }

  /** To be asked before what precedes the work. @throws RefusedError `rate_limited` where too many wait */
  refuseWhereFull({ isFirst = false, maxWaiting, ofOne }: Entry): void {
    const limit =
      this.#waiting.filter((other) => other.isFirst === isFirst).length >= maxWaiting
        ? this.#limit
        : ofOne !== undefined && this.#waiting.filter(({ key }) => key === ofOne.key).length >= ofOne.max
          ? ofOne.limit
          : undefined;
    if (limit !== undefined) throw new RefusedError({ kind: 'rate_limited', limit, retryAfterSeconds });
  }

  async #runInTurn<T>(turn: Turn, pauseMs: () => number, work: () => Promise<T>): Promise<T> {
    const firstOther = this.#waiting.findIndex((other) => !other.isFirst);
    this.#waiting.splice(turn.isFirst && firstOther >= 0 ? firstOther : this.#waiting.length, 0, turn);
    try {
      // By its own timer: a promise of another request cannot be awaited.
      while (this.#taken >= this.#atOnce || this.#waiting[0] !== turn) await scheduler.wait(pollMs);
    } finally {
      this.#waiting.splice(this.#waiting.indexOf(turn), 1);
    }
    this.#taken += 1;
    try {
      return await work();
    } finally {
      const ms = pauseMs();
      if (ms > 0) runInBackground('pause between turns', this.#endTurn(ms));
      else this.#taken -= 1;
    }
  }

  async #endTurn(pauseMs: number): Promise<void> {
    await scheduler.wait(pauseMs);
    this.#taken -= 1;
  }
}
