// How often something may happen in a minute: a leaky bucket that holds one minute's worth. Buckets are in memory only:
// a device whose object sleeps between two events is below every such limit.

/** What is in the bucket, as the time that it takes to drain, and when that was. */
export type Spent = { ms: number; atMs: number };

export const unspent: Spent = { ms: 0, atMs: 0 };
export const noneSpent = { messages: unspent, transitions: unspent, announcements: unspent, guestUses: unspent };

const fullMs = 60_000;
/** Batches differ in how long they were on their way: what is older by more comes from another bridge's backlog,
 * which has a pace of its own. */
const clockSlackMs = 10_000;

/** Undefined where there is no room. @param atMs when it happened, which may be earlier than what came before */
export function spend(spent: Spent, perMinute: number, atMs: number): Spent | undefined {
  const left = drain(spent, atMs);
  const ms = left.ms + fullMs / perMinute;
  return isTooFull(ms) ? undefined : { ms, atMs: left.atMs };
}

/** One that was spent turned out not to count. */
export function giveBack({ ms, atMs }: Spent, perMinute: number): Spent {
  return { ms: Math.max(0, ms - fullMs / perMinute), atMs };
}

/** When there is room for one more. */
export function roomAtMs(spent: Spent, perMinute: number, nowMs: number): number {
  const ms = drain(spent, nowMs).ms + fullMs / perMinute;
  return isTooFull(ms) ? nowMs + Math.ceil(ms - fullMs) : nowMs;
}

function drain({ ms, atMs: beforeMs }: Spent, atMs: number): Spent {
  if (atMs < beforeMs - clockSlackMs) return { ms: 0, atMs };
  return { ms: Math.max(0, ms - Math.max(0, atMs - beforeMs)), atMs: Math.max(atMs, beforeMs) };
}

/** Sums of fractions may exceed the whole by a little. */
function isTooFull(ms: number): boolean {
  return ms > fullMs + 0.001;
}
