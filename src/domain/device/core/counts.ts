// Counts: budgets of a minute, in memory, which limit what a device may do; and counts of an hour for the owner's events, so
// that nobody can fill the list.
import type * as words from '../../../protocol/vocabulary.ts';
import { hourMs, minuteMs } from '../../time.ts';
import { unspent, type Spent } from '../../token-bucket.ts';
import type { DeviceState, Slice } from './state.ts';

type Budgets = Readonly<Record<'messages' | 'transitions' | 'announcements' | 'guestUses' | 'fetches', Spent>>;

export const budgetsSlice: Slice<Budgets> = {
  initial: { messages: unspent, transitions: unspent, announcements: unspent, guestUses: unspent, fetches: unspent },
  row: 'none',
  onNewOwner: 'keep',
};

/** Caused by the device or by strangers, as often as they like. `address`: of the last. */
export type CountedFact =
  | { status: 'flooded'; reason: words.FloodReason }
  | { status: 'message_rejected'; reason: words.MessageRejectionReason; detail: string }
  | { status: 'login_refused'; reason: words.LoginRefusalReason; address: string | null }
  | { status: 'activated'; reason: words.ActivationReason; address: string | null }
  | { status: 'activation_refused'; reason: words.ActivationRefusalReason; address: string | null }
  | { status: 'credentials'; reason: 'contested'; address: string | null };

type Count = CountedFact & { count: number; lastAtMs: number };
type Counts = readonly Count[];

const maxEntriesOfStatus = 48;
/** A busy entry is saved at most once in this time. */
const saveEveryMs = minuteMs;
/** A device with a mistake makes it in every message. */
const saveRejectionEveryMs = 15 * minuteMs;

export const countsSlice: Slice<Counts> = {
  initial: [],
  row: 'own',
  onNewOwner: 'forget',
  isWorthSaving: ({ counts: saved }, { counts }) => {
    if (saved === counts) return false;
    return counts.some((entry) => {
      const before = saved.find((other) => isSame(other, entry));
      const everyMs = entry.status === 'message_rejected' ? saveRejectionEveryMs : saveEveryMs;
      return before === undefined || entry.lastAtMs - before.lastAtMs >= everyMs;
    });
  },
};

export function countFact(state: DeviceState, fact: CountedFact, nowMs: number, times = 1): DeviceState {
  const entry = { ...fact, count: times, lastAtMs: nowMs };
  const former = state.counts.find((other) => isSame(other, entry));
  entry.count += former?.count ?? 0;
  const others = state.counts.filter((other) => other !== former);
  const ofStatus = others.filter(({ status }) => status === fact.status);
  const oldest = ofStatus.length < maxEntriesOfStatus ? undefined : ofStatus[0];
  return { ...state, counts: [...others.filter((other) => other !== oldest), entry] };
}

/** Activations count by address, too. What is refused does not, so that nobody can fill the list from many addresses. */
function isSame(one: Count, other: Count): boolean {
  const [hour, otherHour] = [one, other].map(({ lastAtMs }) => Math.floor(lastAtMs / hourMs));
  if (hour !== otherHour || one.status !== other.status || one.reason !== other.reason) return false;
  return one.status !== 'activated' || other.status !== 'activated' || one.address === other.address;
}

export function countDropped(state: DeviceState, dropped: number, nowMs: number): DeviceState {
  return countFact(state, { status: 'flooded', reason: 'too_many_messages' }, nowMs, dropped);
}

export function countRejection(
  state: DeviceState,
  { reason, topic }: { reason: words.MessageRejectionReason; topic: string },
  nowMs: number,
): DeviceState {
  // A device makes up its topics.
  return countFact(state, { status: 'message_rejected', reason, detail: topic.slice(0, 128) }, nowMs);
}
