// Slice: refused logins, for the maker to see why a device does not get in. One entry per reason and hour.
import type { LoginRefusalReason } from '../../protocol/vocabulary.ts';
import { areCountsWorthSaving, countInHour, type HourlyCount } from './hourly-counts.ts';

export type LoginRefusal = HourlyCount & {
  reason: LoginRefusalReason;
  /** Network address of the last attempt, where the broker tells it. */
  address: string | null;
};

const maxEntries = 48;
const keyOf = ({ reason }: Pick<LoginRefusal, 'reason'>) => reason;

export function countLoginRefusal(
  refusals: readonly LoginRefusal[],
  reason: LoginRefusalReason,
  address: string | null,
  nowMs: number,
): LoginRefusal[] {
  return countInHour(refusals, { reason, address }, { count: 1, nowMs, keyOf, maxEntries });
}

export function areRefusalsWorthSaving(saved: readonly LoginRefusal[], present: readonly LoginRefusal[]): boolean {
  return areCountsWorthSaving(saved, present, keyOf);
}
