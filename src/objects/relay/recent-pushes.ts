// Messages on their way to sockets: their frames, and what was pushed already, per device, so that a batch that a bridge
// retries is pushed once. Memory only: after an eviction it relies on what the device's session says of each message.
import {
  isAtOrBelow,
  noHighWaterMarks,
  raise,
  type HighWaterMarks,
} from '../../domain/device/messages/deduplication.ts';
import { parseJson } from '../../domain/json.ts';
import { rememberNewest } from '../../domain/newest.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';

export const maxRecentDevices = 20_000;

export class RecentPushes {
  readonly #marks = new Map<string, HighWaterMarks>();
  /** What came to a bridge before may have been pushed without being known here. */
  #knownSinceMs = Date.now();

  /** Positions of the messages that are still to be pushed. They count as pushed from here on. */
  takeNew({ deviceId, payloads, origin }: RelayRun): number[] {
    if (origin === undefined) return [...payloads.keys()];
    const { spoolId, seqs, results, receivedAtMs } = origin;
    const marks = this.#marks.get(deviceId);
    const hasMark = marks?.some(([name]) => name === spoolId) ?? false;
    const positions: number[] = [];
    let highest = 0;
    for (const [position, seq] of seqs.entries()) {
      // Nothing is known here of the spool, but the session took it before: it was pushed before the eviction. Another spool
      // may have brought messages since.
      const isOld = (receivedAtMs[position] ?? 0) <= this.#knownSinceMs;
      const isForgotten = !hasMark && isOld && highest === 0 && results[position] === 'duplicate';
      if (isForgotten || seq <= highest || isAtOrBelow(marks ?? noHighWaterMarks, spoolId, seq)) continue;
      // Raised by a redelivery too: the bridge may retry it, and then the session calls it a duplicate.
      highest = seq;
      if (results[position] !== 'redelivery') positions.push(position);
    }
    if (highest === 0) return positions;
    if (marks === undefined && this.#marks.size >= maxRecentDevices) this.#knownSinceMs = Date.now();
    rememberNewest(this.#marks, deviceId, raise(marks ?? noHighWaterMarks, spoolId, highest), maxRecentDevices);
    return positions;
  }
}

export function framesOf({ topic, payloads, areJson = false }: RelayRun, positions: number[]): string[] {
  const start = `{"topic":${JSON.stringify(topic)},"payload":`;
  return positions.map((position) => {
    const payload = payloads[position] ?? '';
    const isJson = areJson || parseJson(payload) !== undefined;
    // JSON goes as it came, without being written anew; anything else goes as a string.
    return `${start}${isJson ? payload : JSON.stringify(payload)}}`;
  });
}
