// What a device remembers of its past: transitions of presence, changes of ownership and of members, uses of guest links, runs of
// schedules, events for webhooks, days. Bounded rings in storage, one row an entry; the core only appends. Positions: see properties.ts.
import type { Slice } from './state.ts';
import type * as words from '../../../protocol/vocabulary.ts';
import type { MemberRole } from '../../access.ts';
import type { OutgoingEvent } from '../../webhooks/webhooks.ts';
import type { Run } from '../times/ledger.ts';
import type { SeriesDay } from '../usage/series.ts';
import type { Day } from '../usage/usage.ts';
import { dayMs } from '../../time.ts';

export type Transition = {
  status: 'online' | 'offline';
  reason: words.TransitionReason;
  detail: string;
  time: number;
  /** The entry stands for so many transitions, and is the last of them. */
  count?: number;
};
export type JournalEntry = { time: number; address: string | null } & (
  | { reason: words.OwnershipChange }
  /** `email`: whom it is about. `role`: the role from then on; null if the membership ended. */
  | { reason: words.MembershipChange; email: string; role: MemberRole | null }
);
export type GuestEntry = { reason: words.GuestLinkChange; linkId: string; time: number; address: string | null };

export type HistoryEntry =
  | { kind: 'transition'; number: number; entry: Transition }
  | { kind: 'journal'; number: number; entry: JournalEntry }
  | { kind: 'guest'; number: number; entry: GuestEntry }
  | { kind: 'run'; number: number; entry: Run }
  | { kind: 'event'; number: number; entry: OutgoingEvent }
  | { kind: 'day'; number: number; entry: Day }
  | { kind: 'quarters' | 'hours'; number: number; entry: SeriesDay };

export const newHistorySlice: Slice<readonly HistoryEntry[]> = { initial: [], row: 'none', onNewOwner: 'forget' };

export const historySize = 100;
/** Days of usage, of quarters and of hours. */
export const daysKept = { day: 400, quarters: 30, hours: 365 } as const;

export function appendHistory<State extends { newHistory: readonly HistoryEntry[] }>(
  state: State,
  entry: HistoryEntry,
): State {
  return { ...state, newHistory: [...state.newHistory, entry] };
}

/** The part of the last 14 days for which the device was offline, by its transitions, newest first. */
export function shareAway(transitions: readonly Transition[], nowMs: number): number {
  const beginMs = nowMs - 14 * dayMs;
  let away = 0;
  let untilMs = nowMs;
  let fromMs = nowMs;
  for (const { status, time } of transitions) {
    fromMs = Math.max(time, beginMs);
    if (status === 'offline') away += Math.max(0, untilMs - fromMs);
    untilMs = fromMs;
    if (fromMs === beginMs) break;
  }
  return fromMs < nowMs ? away / (nowMs - fromMs) : 0;
}
