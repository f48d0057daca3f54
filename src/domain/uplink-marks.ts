// Which messages of a bridge were taken already: a high-water mark per spool, and the content of the last messages
// for those that the broker itself delivers again (MQTT DUP). Message ids never count: devices restart theirs.

export type UplinkMarks = {
  /** Highest sequence number taken, per spool; most recently used last. */
  seqBySpool: [spoolId: string, seq: number][];
  /** Digests of the last messages, oldest first. */
  recentDigests: string[];
};

const maxSpools = 8;
const maxRecent = 64;

export const noMarks: UplinkMarks = { seqBySpool: [], recentDigests: [] };

export function isTaken(marks: UplinkMarks, spoolId: string, seq: number): boolean {
  return seq <= (marks.seqBySpool.find(([name]) => name === spoolId)?.[1] ?? 0);
}

export function isRecent(marks: UplinkMarks, digest: string): boolean {
  return marks.recentDigests.includes(digest);
}

export function take(marks: UplinkMarks, spoolId: string, seq: number, digest: string): UplinkMarks {
  const others = marks.seqBySpool.filter(([name]) => name !== spoolId);
  return {
    seqBySpool: [...others, [spoolId, seq] as [string, number]].slice(-maxSpools),
    recentDigests: [...marks.recentDigests, digest].slice(-maxRecent),
  };
}
