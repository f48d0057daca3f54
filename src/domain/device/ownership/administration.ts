// What its owner changes of a device: its name, whether it is disabled, its messaging credentials, its owner (decision:
// ownership). A claim is activation.ts. Each new owner begins an ownership period: the slices, and storage, forget the one before.
import { accept, refused, type Refusal } from '../../refusal.ts';
import type { DeviceIdentity } from '../../topics.ts';
import { dayMs } from '../../time.ts';
import { endGuestLinks } from '../commands/guest-links.ts';
import type { Decision, Handler } from '../core/events.ts';
import { forNewOwner, type DeviceState } from '../core/state.ts';
import { applyPresence } from '../presence/announcements.ts';
import { closeDirectSession, revokeDirectSession } from '../presence/sessions.ts';
import { markOwnerChanged, markProjectionBehind } from '../presence/projection.ts';
import {
  endGenerations,
  endPasswords,
  endRelaySessions,
  isActivated,
  issue,
  keepSessionPassword,
} from './credentials.ts';
import { note, openOffer, type IdentitySlice } from './ownership.ts';
import { refuseUnless } from './sharing.ts';

const undoClaimDays = 14;

export const administer: Handler<'administered'> = (state, { actor, change }, decision) => {
  const refusal =
    (change.name !== undefined || change.isDisabled === undefined ? refuseUnless(state, actor, 'rename') : undefined) ??
    (change.isDisabled === undefined ? undefined : refuseUnless(state, actor, 'disable'));
  if (refusal !== undefined) return refused(state, refusal);
  const isEnabled = state.identity.isDisabled && change.isDisabled === false;
  const credentials = isEnabled ? endGenerations(state.credentials) : state.credentials;
  const changed = markProjectionBehind({ ...state, credentials, identity: { ...state.identity, ...change } }, true);
  // A disabled device is announced as offline, an enabled device as it is.
  const isToEnd = change.isDisabled === true;
  const ended = isToEnd ? closeDirectSession(endGuestLinks(changed), 'disabled', decision) : changed;
  const next = applyPresence(ended, { kind: 'due' }, decision).state;
  if (isToEnd) endRelaySessions(next, 'disabled', decision);
  const { name, isDisabled } = next.identity;
  return { state: next, result: accept({ name, isDisabled }) };
};

export const replaceCredentials: Handler<'credentials_replaced'> = (state, event, decision) => {
  const { actor, passwordDigest, address } = event;
  const { credentials, settings } = state;
  const issued = { secretDigest: credentials.secretDigest, passwordDigest };
  const ended = endPasswords(credentials, settings.asksAtLogin, decision.nowMs);
  const replaced = issue(ended, issued, decision.nowMs, { shownTo: actor.userId });
  const marked = isActivated(credentials) ? state : markProjectionBehind(state, true);
  const next = revokeDirectSession({ ...marked, credentials: replaced }, decision);
  endRelaySessions(next, 'credentials_rotated', decision);
  return {
    state: note(next, 'credentials_replaced', address, decision.nowMs),
    result: accept(identityOf(state)),
  };
};

export const release: Handler<'released'> = (state, { defaultName }, decision) => {
  const released = returnToMaker(state, defaultName, decision);
  // Without the address, which is the former owner's.
  return { state: note(released, 'released', null, decision.nowMs), result: accept(identityOf(state)) };
};

/** A transfer does not hide a device from it, and does not give it more time. */
export const undoClaim: Handler<'claim_undone'> = (state, { defaultName, address }, decision) => {
  const { tokenUsedAtMs = null } = state.identity;
  if (tokenUsedAtMs === null || decision.nowMs >= tokenUsedAtMs + undoClaimDays * dayMs) {
    const problem = `was not claimed with a token in the last ${undoClaimDays} days`;
    return refused(state, { kind: 'invalid_input', path: 'deviceId', problem });
  }
  const returned = returnToMaker(state, defaultName, decision);
  const result = accept({ ...identityOf(state), formerOwnerId: state.identity.ownerId });
  return { state: note(returned, 'claim_undone', address, decision.nowMs), result };
};

function returnToMaker(state: DeviceState, defaultName: string, decision: Decision): DeviceState {
  const ended = endSession(state, decision);
  const owner = { ownerId: state.identity.productOwnerId, claimedAtMs: null, tokenUsedAtMs: null, name: defaultName };
  const begun = beginOwnershipPeriod(ended, owner, decision);
  return { ...begun, ownership: { ...begun.ownership, isReleased: true } };
}

/** What its product's owner shares, renames or offers is theirs from then on: no serial number takes it from them. */
export function claimForOwner(state: DeviceState, address: string | null, nowMs: number): DeviceState {
  if (state.identity.claimedAtMs !== null) return state;
  const identity = { ...state.identity, claimedAtMs: nowMs };
  // As the owner has said for the whole product.
  const isOpen = identity.reactivation === 'open';
  const claimed = { ...state, identity, ownership: { ...state.ownership, isReleased: false, isOpen } };
  return markOwnerChanged(note(claimed, 'claimed', address, nowMs));
}

export const offerTransfer: Handler<'transfer_offered'> = (state, { offer, address }, { nowMs }) => {
  if (offer.toUserId === state.identity.ownerId) {
    return refused(state, { kind: 'invalid_input', path: 'email', problem: 'is your own' });
  }
  const offered = { ...state, ownership: { ...state.ownership, offer } };
  return { state: note(offered, 'transfer_offered', address, nowMs), result: accept(null) };
};

export const withdrawTransfer: Handler<'transfer_withdrawn'> = (state, { address }, { nowMs }) => {
  if (openOffer(state.ownership, nowMs) === undefined) return refused(state, noOffer(state));
  return { state: note(withoutOffer(state), 'transfer_withdrawn', address, nowMs), result: accept(null) };
};

export const answerTransfer: Handler<'transfer_answered'> = (
  state,
  { userId, offerId, isAccepted, address },
  decision,
) => {
  const { nowMs } = decision;
  const offer = openOffer(state.ownership, nowMs);
  if (offer?.offerId !== offerId || offer.toUserId !== userId) return refused(state, noOffer(state));
  if (!isAccepted) {
    const declined = note(withoutOffer(state), 'transfer_declined', address, nowMs);
    return { state: declined, result: accept({ ...identityOf(state), mustRenew: false }) };
  }
  const credentials = keepSessionPassword(state.credentials);
  const mustRenew = credentials.passwords.every(({ shownTo }) => shownTo !== undefined);
  const passed = mustRenew
    ? endSession(state, decision)
    : { ...state, credentials: endGenerations({ ...credentials, secretDigest: '' }) };
  const begun = beginOwnershipPeriod(passed, { ownerId: userId, claimedAtMs: nowMs }, decision);
  return { state: note(begun, 'transferred', address, nowMs), result: accept({ ...identityOf(state), mustRenew }) };
};

/** @param pairing null closes it */
export const setPairingWindow: Handler<'pairing_window_set'> = (state, { pairing, address }, { nowMs }) => {
  const set = { ...state, ownership: { ...state.ownership, pairing } };
  const reason = pairing === null ? 'pairing_closed' : 'pairing_opened';
  return { state: note(set, reason, address, nowMs), result: accept(null) };
};

export const setReactivation: Handler<'reactivation_set'> = (state, { isOpen, address }, { nowMs }) => {
  if (state.ownership.isOpen === isOpen) return { state, result: accept(null) };
  const set = { ...state, ownership: { ...state.ownership, isOpen } };
  const reason = isOpen ? 'reactivation_opened' : 'reactivation_closed';
  return { state: note(set, reason, address, nowMs), result: accept(null) };
};

export function endSession(state: DeviceState, decision: Decision): DeviceState {
  const { credentials, settings } = state;
  const ended = { ...endPasswords(credentials, settings.asksAtLogin, decision.nowMs), secretDigest: '' };
  return revokeDirectSession({ ...state, credentials: ended }, decision);
}

export function beginOwnershipPeriod(
  state: DeviceState,
  owner: Pick<IdentitySlice, 'ownerId' | 'claimedAtMs'> & Partial<Pick<IdentitySlice, 'name' | 'reactivation'>>,
  { effects }: Decision,
): DeviceState {
  const shards = state.subscriptions.map(({ shard }) => shard);
  effects.push({ kind: 'end_relay_sessions', cause: 'owner_changed', shards, generations: [] });
  for (const { commandId } of state.commands.loaded) effects.push({ kind: 'notify_waiting', commandId });
  const begun = forNewOwner(state, owner.ownerId);
  return markOwnerChanged({ ...begun, identity: { ...begun.identity, ...owner } });
}

function identityOf({ identity: { productKey, deviceId } }: DeviceState): DeviceIdentity {
  return { productKey, deviceId };
}

function withoutOffer(state: DeviceState): DeviceState {
  return { ...state, ownership: { ...state.ownership, offer: null } };
}

function noOffer({ identity }: DeviceState): Refusal {
  return { kind: 'not_found', what: 'transfer', id: identity.deviceId };
}
