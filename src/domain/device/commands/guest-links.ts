// Slice: guest links, each good for one command of this device, and counted here, so that of two last uses one wins. A link
// that is revoked is forgotten; one that has ended otherwise stays in the list until the next is made. Knows no token.
import { dayMs, toIso } from '../../time.ts';
import type { Slice, DeviceState } from '../core/state.ts';
import type { CommandState, GuestLinkChange, GuestLinkState } from '../../../protocol/vocabulary.ts';
import { hasRight, roleOf } from '../../access.ts';
import type { ControlParams } from '../../control-command.ts';
import { accept, refuse, refused, type Outcome, type Refusal } from '../../refusal.ts';
import { appendHistory } from '../core/history.ts';
import { ownershipOf } from '../ownership/sharing.ts';
import { acceptRequest, refuseControl } from './commands.ts';
import { roomAtMs, spend, unspent, type Spent } from '../../token-bucket.ts';
import type { EventOf, Handler } from '../core/events.ts';

type GuestLink = {
  linkId: string;
  params: ControlParams;
  createdBy: number;
  /** The API key that made it and with which it ends; absent: its user in person. */
  madeByKey?: string;
  createdAtMs: number;
  expiresAtMs: number;
  maxUses: number;
  uses: number;
  lastUsedAtMs: number | null;
  isEnded: boolean;
  /** Its part of the uses of a minute. */
  spent?: Spent;
};

export type NewGuestLink = Pick<GuestLink, 'linkId' | 'params' | 'expiresAtMs'> & { maxUses: number | undefined };

export type GuestLinkView = ReturnType<typeof viewLink>;

export type GuestView = { deviceName: string; isOnline: boolean; link: GuestLinkView };

export type GuestReceipt = { deviceName: string; deviceOnline: boolean; usesLeft: number; state?: CommandState };

export type GuestUse = {
  linkId: string;
  address: string | null;
  /** The same id is the same use: a page that is sent again, or a button that is pressed twice. */
  requestId: string | undefined;
};

/** A link is for a visit or a gate, not for a program. */
export const maxUsesOfLink = 1_000;
export const maxDaysOfLink = 30;
/** So much the clock of its maker may be fast: a link of 30 days does not end earlier for that. */
const clockErrorMs = 60_000;
/** Of all links of a device together: a visitor presses a button, and presses it again. */
export const guestUsesPerMinute = 20;
/** Of one link: one guest uses up nobody else's. */
export const linkUsesPerMinute = 10;

export const guestLinksSlice: Slice<{ links: readonly GuestLink[]; entries: number }> = {
  initial: { links: [], entries: 0 },
  row: 'own',
  onNewOwner: 'forget',
};

export const makeGuestLink: Handler<'guest_link_made'> = (state, { link, actor, address }, { nowMs }) => {
  const { guestLinksPerDevice: max } = state.settings.limits;
  const { linkId, params, expiresAtMs, maxUses = maxUsesOfLink } = link;
  const refusal = refuseControl(state) ?? refuseRange({ maxUses, expiresAtMs }, nowMs);
  if (refusal !== undefined) return refused(state, refusal);
  const open = state.guests.links.filter((other) => stateOf(other, nowMs) === 'open');
  if (open.length >= max) return refused(state, { kind: 'limit_reached', limit: { name: 'guestLinksPerDevice', max } });
  const none = { uses: 0, lastUsedAtMs: null, isEnded: false };
  const maker = { createdBy: actor.userId, ...(actor.keyId !== null && { madeByKey: actor.keyId }) };
  const made = { linkId, params, maxUses, expiresAtMs, ...maker, createdAtMs: nowMs, ...none };
  const next = noteGuest(withLinks(state, [...open, made]), 'link_made', linkId, address, nowMs);
  return { state: next, result: accept(viewLink(made, nowMs)) };
};

function refuseRange(
  { maxUses, expiresAtMs }: Pick<GuestLink, 'maxUses' | 'expiresAtMs'>,
  nowMs: number,
): Refusal | undefined {
  const invalid = (path: string, problem: string): Refusal => ({ kind: 'invalid_input', path, problem });
  if (maxUses > maxUsesOfLink) return invalid('maxUses', `must be at most ${maxUsesOfLink}`);
  if (expiresAtMs <= nowMs) return invalid('expiresAt', 'must be in the future');
  const isLate = expiresAtMs > nowMs + maxDaysOfLink * dayMs + clockErrorMs;
  return isLate ? invalid('expiresAt', `must be at most ${maxDaysOfLink} days from now`) : undefined;
}

export const revokeGuestLink: Handler<'guest_link_revoked'> = (state, { linkId, address }, { nowMs }) => {
  const links = state.guests.links.filter((entry) => entry.linkId !== linkId);
  if (links.length === state.guests.links.length) {
    return refused(state, { kind: 'not_found', what: 'guest_link', id: linkId });
  }
  return { state: noteGuest(withLinks(state, links), 'link_revoked', linkId, address, nowMs), result: accept(null) };
};

/** For good: enabling the device does not bring the links back. */
export function endGuestLinks(state: DeviceState): DeviceState {
  if (state.guests.links.every(({ isEnded }) => isEnded)) return state;
  const links = state.guests.links.map((link) => ({ ...link, isEnded: true }));
  return withLinks(state, links);
}

/** The API keys of the links that have not ended. D1 says which of them are valid. */
export function keysOfLinks({ guests }: DeviceState, linkId?: string): { userId: number; keyId: string }[] {
  return guests.links.flatMap(({ createdBy: userId, madeByKey: keyId, isEnded, ...link }) => {
    const isMeant = linkId === undefined || linkId === link.linkId;
    return keyId === undefined || isEnded || !isMeant ? [] : [{ userId, keyId }];
  });
}

export function endLinksOfKey(state: DeviceState, { keyId, isValid }: EventOf<'giver_checked'>): DeviceState {
  const isOfKey = ({ madeByKey, isEnded }: GuestLink) => madeByKey === keyId && !isEnded;
  if (isValid || keyId === null || !state.guests.links.some(isOfKey)) return state;
  const end = (link: GuestLink) => (isOfKey(link) ? { ...link, isEnded: true } : link);
  return withLinks(state, state.guests.links.map(end));
}

export const applyGuestUse: Handler<'guest_link_used'> = (state, { linkId, address, requestId }, decision) => {
  const { nowMs } = decision;
  const standing = findStanding(state, linkId);
  if (!standing.ok) return { state, result: standing };
  const link = standing.value;
  const idempotencyKey = requestId === undefined ? undefined : guestKey(linkId, requestId);
  const request = { params: link.params, ttlSeconds: undefined, waitSeconds: undefined, idempotencyKey };
  const isRepeated = idempotencyKey !== undefined && state.commands.records.some(({ key }) => key === idempotencyKey);
  const input = { request, guestLinkId: linkId };
  if (isRepeated) return acceptRequest(state, input, decision);
  const linkState = stateOf(link, nowMs);
  if (linkState !== 'open') return refused(state, { kind: 'guest_link_refused', because: linkState });
  const [ofLink, ofAll] = [link.spent ?? unspent, state.budgets.guestUses];
  const [spent, guestUses] = [spend(ofLink, linkUsesPerMinute, nowMs), spend(ofAll, guestUsesPerMinute, nowMs)];
  if (spent === undefined || guestUses === undefined) {
    const roomMs = Math.max(roomAtMs(ofLink, linkUsesPerMinute, nowMs), roomAtMs(ofAll, guestUsesPerMinute, nowMs));
    const retryAfterSeconds = Math.ceil((roomMs - nowMs) / 1000);
    return refused(state, { kind: 'rate_limited', limit: 'guestUsesPerMinute', retryAfterSeconds });
  }
  const accepted = acceptRequest(state, input, decision);
  if (!accepted.result.ok) return accepted;
  const used = { ...link, spent, uses: link.uses + 1, lastUsedAtMs: nowMs };
  const counted = withLink({ ...accepted.state, budgets: { ...state.budgets, guestUses } }, used);
  return { state: noteGuest(counted, 'link_used', linkId, address, nowMs), result: accepted.result };
};

/** Gives a use back if its command has certainly reached nobody. @param before the state before that was known */
export function returnGuestUse(before: DeviceState, state: DeviceState, commandId: string, nowMs: number): DeviceState {
  const find = ({ commands }: DeviceState) => commands.loaded.find((entry) => entry.commandId === commandId);
  const command = find(state);
  const because = command?.undeliveredBecause ?? null;
  if (command?.guestLinkId === undefined || because === null || because === 'outcome_unknown') return state;
  const link = state.guests.links.find(({ linkId }) => linkId === command.guestLinkId);
  if (link === undefined || find(before)?.undeliveredBecause !== null) return state;
  const returned = withLink(state, { ...link, uses: Math.max(0, link.uses - 1) });
  return noteGuest(returned, 'link_undelivered', link.linkId, null, nowMs);
}

export function viewGuestLinks({ guests }: DeviceState, nowMs: number): GuestLinkView[] {
  return guests.links.map((link) => viewLink(link, nowMs)).toReversed();
}

export function viewAsGuest(state: DeviceState, linkId: string, nowMs: number): Outcome<GuestView> {
  const standing = findStanding(state, linkId);
  if (!standing.ok) return standing;
  const { identity, presence } = state;
  const isOnline = presence.connection.isOnline && !identity.isDisabled;
  return accept({ deviceName: identity.name, isOnline, link: viewLink(standing.value, nowMs) });
}

export function countUsesLeft({ guests }: DeviceState, linkId: string, nowMs: number): number {
  const link = guests.links.find((entry) => entry.linkId === linkId);
  return link !== undefined && stateOf(link, nowMs) === 'open' ? link.maxUses - link.uses : 0;
}

/** The key of an idempotency record. No key that a caller may send has this form. */
export function guestKey(linkId: string, requestId: string): string {
  return `guest\n${linkId}\n${requestId}`;
}

function findStanding(state: DeviceState, linkId: string): Outcome<GuestLink> {
  const link = state.guests.links.find((entry) => entry.linkId === linkId);
  const role = link && roleOf(ownershipOf(state), link.createdBy);
  const stands = role !== undefined && hasRight(role, 'share') && hasRight(role, 'control');
  const hasEndedWithKey = link?.madeByKey !== undefined && link.isEnded;
  return link !== undefined && stands && !hasEndedWithKey ? accept(link) : refuse(revoked);
}

function stateOf({ isEnded, uses, maxUses, expiresAtMs }: GuestLink, nowMs: number): GuestLinkState {
  if (isEnded) return 'ended';
  if (nowMs >= expiresAtMs) return 'expired';
  return uses >= maxUses ? 'used_up' : 'open';
}

function viewLink(link: GuestLink, nowMs: number) {
  return {
    linkId: link.linkId,
    maxUses: link.maxUses,
    uses: link.uses,
    state: stateOf(link, nowMs),
    command: link.params,
    createdAt: toIso(link.createdAtMs),
    expiresAt: toIso(link.expiresAtMs),
    lastUsedAt: toIso(link.lastUsedAtMs),
  };
}

function noteGuest(
  state: DeviceState,
  reason: GuestLinkChange,
  linkId: string,
  address: string | null,
  nowMs: number,
): DeviceState {
  const number = state.guests.entries + 1;
  const noted = { ...state, guests: { ...state.guests, entries: number } };
  return appendHistory(noted, { kind: 'guest', number, entry: { reason, linkId, time: nowMs, address } });
}

function withLink(state: DeviceState, link: GuestLink): DeviceState {
  const links = state.guests.links.map((former) => (former.linkId === link.linkId ? link : former));
  return withLinks(state, links);
}

function withLinks(state: DeviceState, links: readonly GuestLink[]): DeviceState {
  return { ...state, guests: { ...state.guests, links } };
}

const revoked = { kind: 'guest_link_refused', because: 'revoked' } as const satisfies Refusal;
