// Guest links (decision: ownership): made and revoked by an owner, used by anybody who has the address. The device's object keeps
// and counts them; the token in the address is signed, so that a guess costs no call of an object. No D1.
import { createLinkToken, linkIdLength, readLinkToken, type LinkPurpose } from '../../crypto/link-token.ts';
import { createId } from '../../crypto/secrets.ts';
import type { Actor } from '../../domain/access.ts';
import { parseControl } from '../../domain/control-command.ts';
import type { GuestLinkView, GuestView } from '../../domain/device/commands/guest-links.ts';
import { unspent, spend, type Spent } from '../../domain/token-bucket.ts';
import { BlockedAddresses, rememberNewest } from '../../domain/newest.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import { rateLimited, RefusedError, unwrap } from '../../domain/refusal.ts';
import type { GuestLinkBody } from '../../protocol/http/sharing.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { holdToShield } from '../../pacing/rate-limits.ts';
import { askDevice, askDeviceAs, requireDeviceId } from './device-access.ts';

/** How long a use waits for the device's reply. */
const waitSeconds = 5;
const maxAddresses = 10_000;
/** A person mistypes an address a few times; at this rate a guess of a signed token never succeeds. */
const guessesPerMinute = 20;

// By address, in this isolate: a limiter of the platform would cost more than a guess does.
const guesses = new Map<string, Spent>();
const blocked = new BlockedAddresses();

export async function makeGuestLink(context: ServiceContext, actor: Actor, deviceId: string, body: GuestLinkBody) {
  const { clientAddress: address } = context;
  requireDeviceId(deviceId);
  const params = unwrap(parseControl(body.command));
  const linkId = createId('', linkIdLength);
  const link = { linkId, params, maxUses: body.maxUses, expiresAtMs: Date.parse(body.expiresAt) };
  // Once: repeated after a lost answer it would make a second link that nobody has.
  const made = await askDeviceAs<GuestLinkView>(context, actor, deviceId, {
    action: 'share',
    repeat: 'once',
    ask: (device) => device.decide({ kind: 'guest_link_made', actor, link, address }),
  });
  const token = await createLinkToken(context.config.messagingSecrets, 'guest link', { deviceId, linkId });
  return { ...made, url: `${new URL(context.requestUrl).origin}/g/${token}` };
}

export function pageGuestLinks(context: ServiceContext, actor: Actor, deviceId: string, page: PageRequest) {
  return askDeviceAs<Page<GuestLinkView>>(context, actor, deviceId, {
    action: 'share',
    ask: (device) => device.listGuestLinks(actor, page),
    ifInactive: () => ({ list: [], total: 0, ...page }),
  });
}

type LinkAddress = { deviceId: string; linkId: string };

export async function revokeGuestLink(context: ServiceContext, actor: Actor, { deviceId, linkId }: LinkAddress) {
  const revoked = { kind: 'guest_link_revoked', actor, linkId, address: context.clientAddress } as const;
  unwrap(await callDevice(context.env, requireDeviceId(deviceId), 'once').decide(revoked));
  return { linkId };
}

export async function viewAsGuest(context: ServiceContext, token: string): Promise<GuestView> {
  const { deviceId, linkId } = await requireLink(context, 'guest link', token);
  return orRevoked(() => askDevice<GuestView>(context, deviceId, (device) => device.viewAsGuest(linkId)));
}

/** Sends the link's command. The same `requestId` again is the same use. */
export async function useGuestLink(context: ServiceContext, token: string, requestId: string | undefined) {
  const { clientAddress: address } = context;
  const { deviceId, linkId } = await requireLink(context, 'guest link', token);
  return orRevoked(async () =>
    unwrap(await callDevice(context.env, deviceId, 'once').useGuestLink({ linkId, requestId, address }, waitSeconds)),
  );
}

/** @throws RefusedError also for an address that guesses */
export async function requireLink(context: ServiceContext, purpose: LinkPurpose, token: string) {
  const { clientAddress } = context;
  const retryAfterSeconds = blocked.secondsLeft(clientAddress);
  if (retryAfterSeconds > 0) throw rateLimited('guestGuessesPerAddressMinute', retryAfterSeconds);
  const link = await readLinkToken(context.config.messagingSecrets, purpose, token);
  if (link === undefined) {
    if (context.config.rateLimits === 'production') countGuess(clientAddress, Date.now());
    throw new RefusedError({ kind: 'guest_link_refused', because: 'wrong' });
  }
  await holdToShield(context, 'GUEST_LIMIT', clientAddress);
  return link;
}

function countGuess(address: string, nowMs: number): void {
  const spent = spend(guesses.get(address) ?? unspent, guessesPerMinute, nowMs);
  if (spent === undefined) blocked.block(address);
  else rememberNewest(guesses, address, spent, maxAddresses);
}

/** A deleted device has no links: they count as revoked. */
async function orRevoked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const isGone = error instanceof RefusedError && error.refusal.kind === 'not_found';
    throw isGone ? new RefusedError({ kind: 'guest_link_refused', because: 'revoked' }) : error;
  }
}
