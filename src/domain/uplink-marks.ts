// Which messages of a bridge were taken already: a high-water mark per spool, and the content of the last messages
// for those that the broker itself delivers again (MQTT DUP). Message ids never count: devices restart theirs.

export type UplinkMarks = {
  /** Highest sequence number taken, per spool; most recently used last. */
  seqBySpool: [spoolId: string, seq: number][];
  /** Digests of the last messages, oldest first. */
  recentDigests: string[];
  /**
   * The last messages that the broker delivered again and that were new all the same, oldest first: their first delivery
   * lies in the spool of a bridge that was killed or frozen, and comes when that one is back. Absent where none was.
   */
  redelivered?: [digest: string, spoolId: string, receivedAtMs: number][];
};

const maxSpools = 8;
const maxRecent = 64;
/** Times of two bridges differ by how long their requests were on the way, which the Worker cannot tell from a clock. */
const clockSlackMs = 10_000;

export const noMarks: UplinkMarks = { seqBySpool: [], recentDigests: [] };

export function isTaken(marks: UplinkMarks, spoolId: string, seq: number): boolean {
  return seq <= (marks.seqBySpool.find(([name]) => name === spoolId)?.[1] ?? 0);
}

export function isRecent(marks: UplinkMarks, digest: string): boolean {
  return marks.recentDigests.includes(digest);
}

/**
 * Whether it is the first delivery of one that another bridge has brought. That was received before its redelivery, as
 * far as clocks tell: what the device says anew, in the same words, is received after it.
 */
export function isOvertaken(marks: UplinkMarks, spoolId: string, digest: string, receivedAtMs: number): boolean {
  const { redelivered = [] } = marks;
  return redelivered.some(
    ([known, spool, atMs]) => known === digest && spool !== spoolId && receivedAtMs < atMs + clockSlackMs,
  );
}

export function noteRedelivered(
  marks: UplinkMarks,
  spoolId: string,
  digest: string,
  receivedAtMs: number,
): UplinkMarks {
  const entry: [string, string, number] = [digest, spoolId, receivedAtMs];
  return { ...marks, redelivered: [...(marks.redelivered ?? []), entry].slice(-maxRecent) };
}

export function take(marks: UplinkMarks, spoolId: string, seq: number, digest: string): UplinkMarks {
  // Copied once: every message comes by here.
  const recentDigests = marks.recentDigests.slice(1 - maxRecent);
  recentDigests.push(digest);
  return { ...takeRepeated(marks, spoolId, seq), recentDigests };
}

/** The content stays where it stands: pushed to the end, it would push out what is to be repeated next. */
export function takeRepeated(marks: UplinkMarks, spoolId: string, seq: number): UplinkMarks {
  const seqBySpool = marks.seqBySpool.filter(([name]) => name !== spoolId).slice(1 - maxSpools);
  seqBySpool.push([spoolId, seq]);
  return { ...marks, seqBySpool };
}
