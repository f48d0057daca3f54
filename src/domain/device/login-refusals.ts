// Slice: refused logins, for the maker to see why a device does not get in. One entry per reason and hour, so that
// nobody can fill the list; a busy entry is saved at most once a minute.
import type { LoginRefusalReason } from '../../protocol/vocabulary.ts';

export type LoginRefusal = {
  reason: LoginRefusalReason;
  hour: number;
  count: number;
  lastAtMs: number;
  /** Network address of the last attempt, where the broker tells it. */
  address: string | null;
};

const hourMs = 3_600_000;
const maxEntries = 48;
const saveEveryMs = 60_000;

export function countLoginRefusal(
  refusals: readonly LoginRefusal[],
  reason: LoginRefusalReason,
  address: string | null,
  nowMs: number,
): LoginRefusal[] {
  const hour = Math.floor(nowMs / hourMs);
  const known = refusals.find((one) => one.reason === reason && one.hour === hour);
  const counted = { reason, hour, count: (known?.count ?? 0) + 1, lastAtMs: nowMs, address };
  return [...refusals.filter((one) => one !== known), counted].slice(-maxEntries);
}

/** Whether the entries differ enough from the saved ones to be worth a row. What is not saved is lost with the object. */
export function isWorthSaving(saved: readonly LoginRefusal[], present: readonly LoginRefusal[]): boolean {
  if (saved === present) return false;
  return present.some(({ reason, hour, lastAtMs }) => {
    const before = saved.find((one) => one.reason === reason && one.hour === hour);
    return before === undefined || lastAtMs - before.lastAtMs >= saveEveryMs;
  });
}
