// Slice: with whom a device is shared, and who may do what with it (access.ts). The object decides who is a member; D1 follows
// for lists, and relay shards are told whose subscriptions have ended. Both are tried again by alarm until they have it.
import type { Slice, DeviceState } from '../core/state.ts';
import type { MembershipChange } from '../../../protocol/vocabulary.ts';
import { refusalOf, roleOf, usersWith, type Actor, type DeviceAction, type MemberRole } from '../../access.ts';
import { accept, refused, type Refusal } from '../../refusal.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import { cancelQueued } from '../commands/commands.ts';
import { noteMembership } from './ownership.ts';

export type Member = { userId: number; role: MemberRole; sinceMs: number };

export type SharingSlice = {
  members: readonly Member[];
  /** Number of the last change of the members, and of the last that D1 has. */
  version: number;
  writtenVersion: number;
  /** Users who may no longer follow the device, with the relay shards that do not know it yet. */
  ending: readonly { userId: number; shard: string }[];
  retryAtMs: number;
};

export const sharingSlice: Slice<SharingSlice> = {
  initial: { members: [], version: 0, writtenVersion: 0, ending: [], retryAtMs: 0 },
  row: 'own',
  read: (saved) => ({ ...saved, retryAtMs: 0 }),
  dueAtMs: ({ sharing }) => (isUnfinished(sharing) ? sharing.retryAtMs : Infinity),
  onNewOwner: (state, newOwnerId) => endSharing(state, newOwnerId).sharing,
  onMove: ({ sharing }) => ({ ...sharing, ending: [], retryAtMs: 0 }),
};

export type InvitationChange = Extract<MembershipChange, 'invited' | `invitation_${string}`>;

const lostAfterMs = 30_000;
const backOffMs = 10_000;

export type Party = { email: string; address: string | null };

/** `maxMembers`: set if the owner has a limit of their own. */
export type NewMember = { userId: number; role: MemberRole; invitedBy: number; maxMembers?: number | undefined };

/** An invitation, which gives no right: it is in the events alone. */
export const noteInvitation: Handler<'invitation_changed'> = (state, event, { nowMs }) => {
  const { actor, change, role, email, address } = event;
  // The user who declines has no right on the device.
  const refusal = change === 'invitation_declined' ? undefined : refuseUnless(state, actor, 'share');
  if (refusal !== undefined) return refused(state, refusal);
  return { state: noteMembership(state, change, { email, role, address }, nowMs), result: accept(null) };
};

/** `invitedBy` must still be allowed to share the device. A member gets the new role. */
export const addMember: Handler<'member_joined'> = (
  state,
  { userId, role, invitedBy, maxMembers, email, address },
  { nowMs },
) => {
  const { sharing, identity, settings } = state;
  const { deviceId } = identity;
  const inviter = roleOf(ownershipOf(state), invitedBy);
  if (inviter !== 'owner') return refused(state, { kind: 'not_found', what: 'invitation' });
  if (identity.ownerId === userId) return refused(state, { kind: 'is_owner', deviceId });
  const others = sharing.members.filter((entry) => entry.userId !== userId);
  const max = maxMembers ?? settings.limits.membersPerDevice;
  if (others.length >= max) return refused(state, { kind: 'limit_reached', limit: { name: 'membersPerDevice', max } });
  const before = sharing.members.find((entry) => entry.userId === userId);
  const member = { userId, role, sinceMs: before?.sinceMs ?? nowMs };
  if (before?.role === role) return { state, result: accept(before) };
  const ending = sharing.ending.filter((entry) => entry.userId !== userId);
  const joined = withMembers({ ...state, sharing: { ...sharing, ending } }, [...others, member]);
  const change = before === undefined ? 'joined' : 'role_changed';
  const noted = noteMembership(joined, change, { email, role, address }, nowMs);
  return { state: cancelUnallowed(noted, nowMs), result: accept(member) };
};

export const changeMember: Handler<'member_changed'> = (state, { userId, role, email, address }, { nowMs }) => {
  const member = state.sharing.members.find((entry) => entry.userId === userId);
  if (member === undefined) return refused(state, { kind: 'not_found', what: 'member' });
  const changed = { ...member, role };
  const members = state.sharing.members.map((entry) => (entry === member ? changed : entry));
  if (member.role === role) return { state, result: accept(member) };
  const noted = noteMembership(withMembers(state, members), 'role_changed', { email, role, address }, nowMs);
  return { state: cancelUnallowed(noted, nowMs), result: accept(changed) };
};

export const removeMember: Handler<'member_removed'> = (state, { userId, actor, email, address }, { nowMs }) => {
  const refusal = refuseUnless(state, actor, actor.userId === userId ? 'leave' : 'share');
  if (refusal !== undefined) return refused(state, refusal);
  const members = state.sharing.members.filter((entry) => entry.userId !== userId);
  if (members.length === state.sharing.members.length) return refused(state, { kind: 'not_found', what: 'member' });
  const change = actor.userId === userId ? 'left' : 'removed';
  const noted = noteMembership(withMembers(state, members), change, { email, role: null, address }, nowMs);
  return { state: endSubscriptionsOf(cancelUnallowed(noted, nowMs), [userId]), result: accept(null) };
};

function cancelUnallowed(state: DeviceState, nowMs: number): DeviceState {
  return cancelQueued(state, usersWith(ownershipOf(state), 'control'), nowMs);
}

/** For a new owner: nobody is a member any more. Former members and the former owner may not follow the device. */
function endSharing(state: DeviceState, newOwnerId: number): DeviceState {
  const { sharing, identity } = state;
  const former = [identity.ownerId, ...sharing.members.map(({ userId }) => userId)];
  const unshared = sharing.members.length === 0 ? state : withMembers(state, []);
  const leaving = former.filter((userId) => userId !== newOwnerId);
  return endSubscriptionsOf(unshared, leaving);
}

function endSubscriptionsOf(state: DeviceState, userIds: readonly number[]): DeviceState {
  const { sharing, subscriptions } = state;
  const added = userIds.flatMap((userId) => subscriptions.map(({ shard }) => ({ userId, shard })));
  const ending = [...sharing.ending.filter((entry) => !userIds.includes(entry.userId)), ...added];
  return { ...state, sharing: { ...sharing, ending, retryAtMs: 0 } };
}

/** Writes the members again if D1 has others: either side may have been restored. */
export function compareMembers(state: DeviceState, versionInD1: number): DeviceState {
  const { version, writtenVersion, members } = state.sharing;
  if (versionInD1 === version || (writtenVersion < version && versionInD1 < version)) return state;
  return withMembers({ ...state, sharing: { ...state.sharing, version: Math.max(version, versionInD1) } }, members);
}

export const noteMembersWritten: Reporter<'members_written'> = (state, { version, isWritten }, { nowMs }) => {
  const { sharing } = state;
  if (!isWritten) return retryLater(state, nowMs);
  const writtenVersion = Math.max(sharing.writtenVersion, version);
  return { ...state, sharing: { ...sharing, writtenVersion } };
};

export const noteSubscriptionsEnded: Reporter<'subscriptions_ended'> = (
  state,
  { userId, shard, isDone },
  { nowMs },
) => {
  if (!isDone) return retryLater(state, nowMs);
  const ending = state.sharing.ending.filter((entry) => entry.userId !== userId || entry.shard !== shard);
  return { ...state, sharing: { ...state.sharing, ending } };
};

export function planSharing(state: DeviceState, { nowMs, effects }: Decision): DeviceState {
  const { version, writtenVersion, members, ending, retryAtMs } = state.sharing;
  if (!isUnfinished(state.sharing) || nowMs < retryAtMs) return state;
  if (version > writtenVersion) effects.push({ kind: 'write_members', version, members });
  for (const entry of ending) effects.push({ kind: 'end_subscriptions', ...entry });
  return { ...state, sharing: { ...state.sharing, retryAtMs: nowMs + lostAfterMs } };
}

export function ownershipOf({ identity, sharing }: DeviceState) {
  return { ...identity, members: sharing.members };
}

export function readersOf(state: DeviceState): number[] {
  return usersWith(ownershipOf(state), 'readReports');
}

function retryLater(state: DeviceState, nowMs: number): DeviceState {
  return { ...state, sharing: { ...state.sharing, retryAtMs: nowMs + backOffMs } };
}

function withMembers(state: DeviceState, members: readonly Member[]): DeviceState {
  const { sharing } = state;
  return { ...state, sharing: { ...sharing, members, version: sharing.version + 1, retryAtMs: 0 } };
}

export function refuseUnless(state: DeviceState, actor: Actor, action: DeviceAction): Refusal | undefined {
  return refusalOf(ownershipOf(state), actor, action);
}

function isUnfinished({ version, writtenVersion, ending }: SharingSlice): boolean {
  return version > writtenVersion || ending.length > 0;
}
