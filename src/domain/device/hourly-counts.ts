// Counts of what may happen very often, for the owner's events: one entry an hour and kind, so that nobody can fill the
// list. A busy entry is saved at most once a minute; what is not saved is lost with the object.

export type HourlyCount = { hour: number; count: number; lastAtMs: number };

const hourMs = 3_600_000;
const saveEveryMs = 60_000;

/** Adds `count` to the entry of this hour that has the same `key`; of more than `maxEntries` the oldest ends. */
export function countInHour<Entry extends HourlyCount>(
  entries: readonly Entry[],
  facts: Omit<Entry, keyof HourlyCount>,
  { count, nowMs, keyOf, maxEntries }: { count: number; nowMs: number; keyOf: KeyOf<Entry>; maxEntries: number },
): Entry[] {
  const hour = Math.floor(nowMs / hourMs);
  const key = keyOf(facts);
  const known = entries.find((one) => one.hour === hour && keyOf(one) === key);
  const counted = { ...facts, hour, count: (known?.count ?? 0) + count, lastAtMs: nowMs } as Entry;
  return [...entries.filter((one) => one !== known), counted].slice(-maxEntries);
}

/** Whether the entries differ enough from the saved ones to be worth a row. */
export function areCountsWorthSaving<Entry extends HourlyCount>(
  saved: readonly Entry[],
  present: readonly Entry[],
  keyOf: KeyOf<Entry>,
): boolean {
  if (saved === present) return false;
  return present.some((entry) => {
    const before = saved.find((one) => one.hour === entry.hour && keyOf(one) === keyOf(entry));
    return before === undefined || entry.lastAtMs - before.lastAtMs >= saveEveryMs;
  });
}

type KeyOf<Entry extends HourlyCount> = (facts: Omit<Entry, keyof HourlyCount>) => string;
