// What was pushed already, per device, so that a batch that a bridge retries is pushed once. Memory only: after an
// eviction it relies on what the device's session says of each message.
import { isTaken, noMarks, take, type UplinkMarks } from '../domain/uplink-marks.ts';
import type { RelayRun } from './relay-push.ts';

export class PushedMessages {
  readonly #marks = new Map<string, UplinkMarks>();

  forget(deviceId: string): void {
    this.#marks.delete(deviceId);
  }

  /** Positions of the messages that are still to be pushed. They count as pushed from here on. */
  takeNew({ deviceId, payloads, origin }: RelayRun): number[] {
    if (origin === undefined) return [...payloads.keys()];
    const { spoolId, seqs, taken } = origin;
    const marks = this.#marks.get(deviceId);
    const positions: number[] = [];
    let highest = 0;
    for (const [position, seq] of seqs.entries()) {
      // Nothing is known here, but the session took it before: it was pushed before the eviction.
      const isForgotten = marks === undefined && highest === 0 && taken[position] === 'again';
      if (isForgotten || seq <= highest || isTaken(marks ?? noMarks, spoolId, seq)) continue;
      // Raised by a redelivery too: the bridge may retry it, and then the session calls it a duplicate.
      highest = seq;
      if (taken[position] !== 'repeated') positions.push(position);
    }
    if (highest > 0) this.#marks.set(deviceId, take(marks ?? noMarks, spoolId, highest, ''));
    return positions;
  }
}
