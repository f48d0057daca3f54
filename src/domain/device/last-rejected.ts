// Slice: the last message that could not be read, or of which members were dropped, for the maker of the device to see why
// a report changes nothing. One entry: who sends many of them fills nothing.
import type { TopicAction } from '../../protocol/mqtt.ts';
import type { DeviceMessage, InvalidReason } from './messages.ts';

export type LastRejected = {
  action: TopicAction;
  reason: InvalidReason | 'wrong_type';
  /** Names of the members that were dropped, where the others counted. */
  dropped: readonly string[];
  /** The first 200 bytes. */
  text: string;
  atMs: number;
};

const shownBytes = 200;
/** One of the same kind is saved this often: a device with a mistake makes it in every report. */
const saveEveryMs = 15 * 60_000;

/** What `message` leaves to be seen: the former entry where all of it was understood. */
export function noteRejected(
  former: LastRejected | null,
  message: DeviceMessage,
  { action, payload }: { action: TopicAction; payload: string },
  nowMs: number,
): LastRejected | null {
  if (message.kind === 'invalid') {
    return { action, reason: message.reason, dropped: [], text: beginOf(payload), atMs: nowMs };
  }
  if (message.kind !== 'report' || message.dropped === undefined) return former;
  return { action, reason: 'wrong_type', dropped: message.dropped, text: beginOf(payload), atMs: nowMs };
}

export function isRejectedWorthSaving(saved: LastRejected | null, present: LastRejected | null): boolean {
  if (saved === present) return false;
  // A new owner sees nothing of the former one.
  if (present === null) return true;
  return saved?.reason !== present.reason || present.atMs - saved.atMs >= saveEveryMs;
}

function beginOf(payload: string): string {
  const bytes = new TextEncoder().encode(payload.slice(0, shownBytes));
  return new TextDecoder().decode(bytes.subarray(0, shownBytes)).replace(/\uFFFD+$/, '');
}
