// Counts the messages of each device that were dropped because it sends too many, until the Worker has the count: for each
// device once a minute at most. A count whose batch is not answered is lost.
import { maxDroppedCounts } from '../../../src/protocol/bridge.ts';

type DroppedCount = { topic: string; count: number };

const reportEveryMs = 60_000;

export class DroppedMessages {
  /** By device, with any topic of it. */
  readonly #counts = new Map<string, DroppedCount>();
  readonly #reportedAtMs = new Map<string, number>();

  note(device: string, topic: string): void {
    const known = this.#counts.get(device);
    if (known === undefined) this.#counts.set(device, { topic, count: 1 });
    else known.count += 1;
  }

  /** What is due now; it counts as reported. */
  takeDue(nowMs: number): DroppedCount[] {
    for (const [device, atMs] of this.#reportedAtMs) {
      if (nowMs - atMs >= reportEveryMs) this.#reportedAtMs.delete(device);
    }
    const due = [...this.#counts].filter(([device]) => !this.#reportedAtMs.has(device)).slice(0, maxDroppedCounts);
    for (const [device] of due) {
      this.#counts.delete(device);
      this.#reportedAtMs.set(device, nowMs);
    }
    return due.map(([, count]) => count);
  }
}
