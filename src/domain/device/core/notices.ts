// Slice: users who have to be told that the device's record or its members changed. They are told when D1 has the change, because
// they read it there. In memory only: users whom an evicted object did not tell see the change when they read again.
import { recordTopic, type RecordNotice } from '../../../protocol/relay.ts';
import { topicOf } from '../../topics.ts';
import { liveGenerations } from '../ownership/credentials.ts';
import { readersOf } from '../ownership/sharing.ts';
import type { Decision } from './events.ts';
import type { DeviceState, Slice } from './state.ts';

/** The users to be told, by what changed; null if nothing did. */
type NoticesSlice = { record: readonly number[] | null; members: readonly number[] | null };

export const noticesSlice: Slice<NoticesSlice> = {
  initial: { record: null, members: null },
  row: 'none',
  onNewOwner: 'keep',
};

export function planNotices(before: DeviceState, state: DeviceState, decision: Decision): DeviceState {
  const noted = noteChanges(before, state, decision);
  const { record, members } = noted.notices;
  const isRecordDue = record !== null && !noted.presence.isProjectionBehind;
  const areMembersDue = members !== null && noted.sharing.writtenVersion >= noted.sharing.version;
  if (!isRecordDue && !areMembersDue) return noted;
  if (isRecordDue) tellReaders(noted, 'record_changed', record, decision);
  if (areMembersDue) tellReaders(noted, 'members_changed', members, decision);
  return { ...noted, notices: { record: isRecordDue ? null : record, members: areMembersDue ? null : members } };
}

export function tellDeleted(before: DeviceState, decision: Decision): void {
  tellReaders(before, 'deleted', readersOf(before), decision);
}

function noteChanges(before: DeviceState, state: DeviceState, decision: Decision): DeviceState {
  const { identity, sharing, notices } = state;
  const recordMembers = ['name', 'isDisabled', 'ownerId'] as const;
  const isRecordChanged = recordMembers.some((member) => before.identity[member] !== identity[member]);
  const areMembersChanged = before.sharing.members !== sharing.members;
  if (!isRecordChanged && !areMembersChanged) return state;
  const [former, present] = [readersOf(before), readersOf(state)];
  const leaving = former.filter((userId) => !present.includes(userId));
  // They are told at once, while their subscriptions of the device last, and again when D1 knows it.
  if (leaving.length > 0) tellReaders(before, 'members_changed', leaving, decision);
  const withReaders = (users: readonly number[] | null) => [...new Set([...(users ?? []), ...former, ...present])];
  const record = isRecordChanged ? withReaders(notices.record) : notices.record;
  return { ...state, notices: { record, members: areMembersChanged ? withReaders(notices.members) : notices.members } };
}

/** Before the other effects, which may end the subscriptions of these users. */
function tellReaders(
  { identity, subscriptions, credentials }: DeviceState,
  change: RecordNotice['change'],
  readers: readonly number[],
  { nowMs, effects }: Decision,
): void {
  const notice: RecordNotice = { change, time: nowMs };
  const push = { topic: topicOf(identity, recordTopic), payload: JSON.stringify(notice), subscriptions };
  effects.unshift({ kind: 'tell_readers', ...push, generations: liveGenerations(credentials, nowMs), readers });
}
