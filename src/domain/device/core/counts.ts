// Counts: budgets of a minute, in memory, which limit what a device may do; and counts of an hour for the owner's events, so
// that nobody can fill the list.
import type { LoginRefusalReason, MessageRejectionReason } from '../../../protocol/vocabulary.ts';
import { hourMs, minuteMs } from '../../time.ts';
import { unspent, type Spent } from '../../token-bucket.ts';
import type { Slice } from './state.ts';

type Budgets = Readonly<Record<'messages' | 'transitions' | 'announcements' | 'guestUses', Spent>>;

export const budgetsSlice: Slice<Budgets> = {
  initial: { messages: unspent, transitions: unspent, announcements: unspent, guestUses: unspent },
  row: 'none',
  onNewOwner: 'keep',
};

export type HourlyCount = { hour: number; count: number; lastAtMs: number };
type Counted<Facts> = readonly (HourlyCount & Facts)[];

/** A busy entry is saved at most once in this time. */
const saveCountEveryMs = minuteMs;

export function hourlyCounts<Facts extends object>(
  name: 'floods' | 'rejections' | 'loginRefusals' | 'activations',
  maxEntries: number,
  keyOf: (facts: Facts) => string,
  saveEveryMs = saveCountEveryMs,
) {
  const slice: Slice<Counted<Facts>> = {
    initial: [],
    row: 'own',
    onNewOwner: 'forget',
    isWorthSaving: (savedState, state) => {
      const [saved, present] = [savedState[name], state[name]] as unknown as [Counted<Facts>, Counted<Facts>];
      if (saved === present) return false;
      return present.some((entry) => {
        const before = saved.find((other) => other.hour === entry.hour && keyOf(other) === keyOf(entry));
        return before === undefined || entry.lastAtMs - before.lastAtMs >= saveEveryMs;
      });
    },
  };
  const add = (entries: Counted<Facts>, facts: Facts, count: number, nowMs: number): Counted<Facts> => {
    const hour = Math.floor(nowMs / hourMs);
    const former = entries.find((entry) => entry.hour === hour && keyOf(entry) === keyOf(facts));
    const counted = { ...facts, hour, count: (former?.count ?? 0) + count, lastAtMs: nowMs };
    return [...entries.filter((entry) => entry !== former), counted].slice(-maxEntries);
  };
  return { slice, add };
}

const floods = hourlyCounts<object>('floods', 24, () => '');
export const floodsSlice = floods.slice;

export function countDropped<State extends { floods: readonly HourlyCount[] }>(
  state: State,
  count: number,
  nowMs: number,
): State {
  return { ...state, floods: floods.add(state.floods, {}, count, nowMs) };
}

type RejectionFacts = { reason: MessageRejectionReason; topic: string };
type Rejection = HourlyCount & RejectionFacts;

/** A device with a mistake makes it in every message. */
const rejections = hourlyCounts<RejectionFacts>('rejections', 48, ({ reason }) => reason, 15 * minuteMs);
export const rejectionsSlice = rejections.slice;

export function countRejection<State extends { rejections: readonly Rejection[] }>(
  state: State,
  { reason, topic }: RejectionFacts,
  nowMs: number,
): State {
  // A device makes up its topics.
  const facts = { reason, topic: topic.slice(0, 128) };
  return { ...state, rejections: rejections.add(state.rejections, facts, 1, nowMs) };
}

type LoginRefusalFacts = { reason: LoginRefusalReason; address: string | null };
export type LoginRefusal = HourlyCount & LoginRefusalFacts;

const loginRefusals = hourlyCounts<LoginRefusalFacts>('loginRefusals', 48, ({ reason }) => reason);
export const loginRefusalsSlice = loginRefusals.slice;

export function countLoginRefusal(refusals: readonly LoginRefusal[], facts: LoginRefusalFacts, nowMs: number) {
  return loginRefusals.add(refusals, facts, 1, nowMs);
}
