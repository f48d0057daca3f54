// Slice: which messages had their effect before. The one description of the algorithm:
//
// 1. A bridge numbers what it spools. A number at or below the high-water mark of its spool is a retry of the bridge:
//    `duplicate`.
// 2. A message that the broker sends again (MQTT DUP) comes under a new number, with facts from the bridge:
//    - `redeliveryOf`: this spool had the same delivery under that number, and the bridge sends a device's messages in
//      order: `redelivery`, even if the mark was lost with the object because the message was not worth a row.
//    - `isSoleReader`: nobody else can have read the broker's session, so that an unknown redelivery was lost on its
//      first way and is new.
//    - neither: another bridge may have brought it. Its content among the last 64 messages: `redelivery`.
// 3. Another bridge may have brought a message as a redelivery. Its first delivery may come late, from the spool of a
//    bridge that was killed or frozen: same content, another spool, received earlier: `redelivery`.
//
// Message ids never count: devices restart theirs (field note 45). The bridge decides nothing of this.

import type { Slice } from '../core/state.ts';

export type HighWaterMarks = readonly (readonly [spoolId: string, seq: number])[];

export type DeduplicationSlice = {
  /** Highest number with an effect, per spool; most recently used last. */
  marks: HighWaterMarks;
  recent: readonly number[];
  /** Redeliveries that were new, oldest first: their first delivery may still come from another spool. */
  redelivered: readonly (readonly [fingerprint: number, spoolId: string, receivedAtMs: number])[];
  /** Messages whose handling failed: sent again, they are rejected again. */
  failed: readonly (readonly [spoolId: string, seq: number])[];
};

export type Delivery = {
  spoolId: string;
  seq: number;
  isDup: boolean;
  redeliveryOf: number | undefined;
  isSoleReader: boolean;
  receivedAtMs: number;
  fingerprint: number;
};

const maxSpools = 8;
const maxRecent = 64;
const maxFailed = 16;
/** How far the clocks of two bridges may differ: the Worker cannot tell it from the time a request was on its way. */
const clockSlackMs = 10_000;

export const deduplicationSlice: Slice<DeduplicationSlice> = {
  initial: { marks: [], recent: [], redelivered: [], failed: [] },
  row: 'activity',
  // The rest is saved with what the messages changed; a message without a change may be applied again.
  isWorthSaving: (saved, { deduplication }) => saved.deduplication.failed !== deduplication.failed,
  onNewOwner: 'keep',
};
export const noHighWaterMarks: HighWaterMarks = [];

export function isAtOrBelow(marks: HighWaterMarks, spoolId: string, seq: number): boolean {
  return seq <= (marks.find(([name]) => name === spoolId)?.[1] ?? 0);
}

export function raise(marks: HighWaterMarks, spoolId: string, seq: number): HighWaterMarks {
  const others = marks.filter(([name]) => name !== spoolId).slice(1 - maxSpools);
  return [...others, [spoolId, seq]];
}

export function isRedelivery(slice: DeduplicationSlice, delivery: Delivery): boolean {
  const { spoolId, fingerprint, receivedAtMs } = delivery;
  if (!delivery.isDup) {
    return slice.redelivered.some(
      ([print, spool, atMs]) => print === fingerprint && spool !== spoolId && receivedAtMs < atMs + clockSlackMs,
    );
  }
  if (delivery.redeliveryOf !== undefined) return true;
  return !delivery.isSoleReader && slice.recent.includes(fingerprint);
}

/** A new message has its effect: to be kept together with that effect. */
export function noteNew(slice: DeduplicationSlice, delivery: Delivery): DeduplicationSlice {
  const { spoolId, seq, fingerprint, isDup, receivedAtMs } = delivery;
  // Copied once: every message comes by here.
  const recent = slice.recent.slice(1 - maxRecent);
  recent.push(fingerprint);
  const redelivered = isDup
    ? [...slice.redelivered, [fingerprint, spoolId, receivedAtMs] as const].slice(-maxRecent)
    : slice.redelivered;
  return { ...slice, marks: raise(slice.marks, spoolId, seq), recent, redelivered };
}

/** The content keeps its place: moved to the end, it would push out what comes again next. */
export function noteRedelivery(slice: DeduplicationSlice, { spoolId, seq }: Delivery): DeduplicationSlice {
  return { ...slice, marks: raise(slice.marks, spoolId, seq) };
}

export function noteFailed(slice: DeduplicationSlice, spoolId: string, seq: number): DeduplicationSlice {
  const failed = [...slice.failed, [spoolId, seq] as const].slice(-maxFailed);
  return { ...slice, marks: raise(slice.marks, spoolId, seq), failed };
}

export function hasFailed(slice: DeduplicationSlice, spoolId: string, seq: number): boolean {
  return slice.failed.some(([spool, number]) => spool === spoolId && number === seq);
}
