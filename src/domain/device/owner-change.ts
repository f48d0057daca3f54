// How a device passes from owner to owner: released, offered, accepted (decision: ownership); a claim is activation.ts. With each new owner a new life begins: what the
// device remembers of the one before is wiped here, and by storage where `life` has grown. Rights are checked by decide.ts.
import type { Outcome, Refusal } from '../refusal.ts';
import { refuse } from '../refusal.ts';
import type { DeviceIdentity } from '../topics.ts';
import { nothingCoalesced } from './coalescing.ts';
import { noCommands } from './commands.ts';
import { endGenerations, endPasswords, keepSessionPassword } from './credentials.ts';
import { revokeEdgeSession } from './edge-session.ts';
import type { Effect } from './effects.ts';
import { noGuestLinks } from './guest-links.ts';
import type { IdentitySlice } from './identity.ts';
import { noOwnership, note, openOffer } from './ownership.ts';
import type { TransferOffer } from './ownership.ts';
import { markProjectionBehind } from './projection.ts';
import { noProperties } from './properties.ts';
import { endSharing } from './sharing.ts';
import type { DeviceState } from './state.ts';

type Changed<T> = { state: DeviceState; result: Outcome<T> };

/** Given up: it belongs to its product's owner again, and nobody's credentials are valid. */
export function release(
  state: DeviceState,
  defaultName: string,
  nowMs: number,
  effects: Effect[],
): Changed<DeviceIdentity> {
  const { productKey, deviceId, productOwnerId } = state.identity;
  const ended = endSession(state, nowMs, effects);
  const owner = { ownerId: productOwnerId, claimedAtMs: null, name: defaultName };
  const begun = beginLife(ended, owner, nowMs, effects);
  const released = { ...begun, ownership: { ...begun.ownership, isReleased: true } };
  // Without the address, which is the former owner's.
  return { state: note(released, 'released', null, nowMs), result: done({ productKey, deviceId }) };
}

/** Takes the place of an offer that was made before. */
export function offerTransfer(
  state: DeviceState,
  offer: TransferOffer,
  address: string | null,
  nowMs: number,
): Changed<null> {
  if (offer.toUserId === state.identity.ownerId) {
    return { state, result: refuse({ kind: 'invalid_input', path: 'email', problem: 'is your own' }) };
  }
  const offered = { ...state, ownership: { ...state.ownership, offer } };
  return { state: note(offered, 'transfer_offered', address, nowMs), result: done(null) };
}

export function withdrawTransfer(state: DeviceState, address: string | null, nowMs: number): Changed<null> {
  if (openOffer(state.ownership, nowMs) === undefined) return { state, result: refuse(noOffer(state)) };
  return { state: note(withoutOffer(state), 'transfer_withdrawn', address, nowMs), result: done(null) };
}

/** By whom the device was offered to. The device goes on working: it keeps the password that it uses. */
export function answerTransfer(
  state: DeviceState,
  {
    userId,
    offerId,
    isAccepted,
    address,
  }: { userId: number; offerId: string; isAccepted: boolean; address: string | null },
  nowMs: number,
  effects: Effect[],
): Changed<null> {
  const offer = openOffer(state.ownership, nowMs);
  if (offer?.offerId !== offerId || offer.toUserId !== userId) {
    return { state, result: refuse(noOffer(state)) };
  }
  if (!isAccepted) return { state: note(withoutOffer(state), 'transfer_declined', address, nowMs), result: done(null) };
  const credentials = endGenerations(keepSessionPassword(state.credentials));
  const kept = { ...state, credentials };
  const begun = beginLife(kept, { ownerId: userId, claimedAtMs: nowMs }, nowMs, effects);
  return { state: note(begun, 'transferred', address, nowMs), result: done(null) };
}

/** @param untilMs null closes it */
export function setPairingWindow(
  state: DeviceState,
  untilMs: number | null,
  address: string | null,
  nowMs: number,
): Changed<null> {
  const set = { ...state, ownership: { ...state.ownership, pairingUntilMs: untilMs } };
  const reason = untilMs === null ? 'pairing_closed' : 'pairing_opened';
  return { state: note(set, reason, address, nowMs), result: done(null) };
}

/** Nobody is in session any more, and no password is valid. */
export function endSession(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  const { credentials, settings } = state;
  const ended = { ...endPasswords(credentials, settings.asksAtLogin, nowMs), secretDigest: '' };
  return revokeEdgeSession({ ...state, credentials: ended }, nowMs, effects);
}

/** Ends what the owner before could see and do, and tells D1 of the new one. */
export function beginLife(
  state: DeviceState,
  owner: Pick<IdentitySlice, 'ownerId' | 'claimedAtMs'> & { name?: string },
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const shards = state.subscriptions.map(({ shard }) => shard);
  effects.push({ kind: 'end_relay_sessions', cause: 'owner changed', shards, generations: [] });
  for (const { commandId } of state.commands.loaded) effects.push({ kind: 'notify_waiting', commandId });
  const { presence, ownership } = state;
  const { sharing } = endSharing(state, owner.ownerId);
  const { isOnline, lastOnlineAtMs } = presence.connection;
  const connection = { ...presence.connection, lastOnlineAtMs: isOnline ? lastOnlineAtMs : null };
  const begun: DeviceState = {
    ...state,
    identity: { ...state.identity, ...owner },
    ownership: { ...noOwnership, life: ownership.life + 1, entries: ownership.entries },
    presence: { ...presence, connection, waiting: null },
    properties: noProperties,
    commands: noCommands,
    sharing,
    guests: noGuestLinks,
    subscriptions: [],
    coalesced: nothingCoalesced,
    loginRefusals: [],
    floods: [],
    lastRejected: null,
    activations: [],
    newHistory: [],
  };
  return markOwnerChanged(begun);
}

/** D1 is told of the owner with the next projection, at once. */
export function markOwnerChanged(state: DeviceState): DeviceState {
  const behind = markProjectionBehind(state, true);
  return { ...behind, ownership: { ...behind.ownership, ownerVersion: behind.presence.projectionVersion } };
}

function withoutOffer(state: DeviceState): DeviceState {
  return { ...state, ownership: { ...state.ownership, offer: null } };
}

function noOffer({ identity }: DeviceState): Refusal {
  return { kind: 'not_found', what: 'transfer', id: identity.deviceId };
}

function done<T>(value: T): Outcome<T> {
  return { ok: true, value };
}
