// Tells a message that can never be taken from a Worker or an object in trouble: it failed by itself, again and again,
// and each time others were taken in between. While nothing else is taken, no try counts.
import type { UplinkMessage } from './message.ts';

export class FailedMessages {
  readonly #maxTries: number;
  #taken = 0;

  constructor(maxTries: number) {
    this.#maxTries = maxTries;
  }

  /** The Worker took messages. */
  noteTaken(count: number): void {
    this.#taken += count;
  }

  /** The message failed by itself; true where it is to be given up. */
  note(message: UplinkMessage): boolean {
    const { count, takenBefore } = message.failures ?? { count: 0, takenBefore: -1 };
    if (this.#taken > takenBefore) message.failures = { count: count + 1, takenBefore: this.#taken };
    return (message.failures?.count ?? 0) >= this.#maxTries;
  }
}
