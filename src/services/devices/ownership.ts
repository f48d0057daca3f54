// How a device passes from owner to owner: released, offered, accepted; and its pairing window (decision: ownership). The device's
// session decides; D1 has the offers for the list of whom they are made to.
import { createId } from '../../crypto/secrets.ts';
import * as transfers from '../../db/devices/transfers.ts';
import type { Actor } from '../../domain/access.ts';
import { foldName, nameOf } from '../../domain/names.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { invalidInput, limitReached, notFound } from '../../domain/refusal.ts';
import { recordSecurityEvent } from '../accounts/security-events.ts';
import { endAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { createClaimToken } from './claim-tokens.ts';
import { requireUser } from '../accounts/accounts.ts';
import { requireVerified } from '../accounts/email-verification.ts';
import { askDeviceAs, decide, decideAs, requireDevice, requireDeviceId } from './device-access.ts';

const offerMs = 7 * dayMs;

export async function releaseDevice(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { device, product } = await requireDevice(context, actor, deviceId, 'transfer');
  const defaultName = nameOf(product.name, device.deviceSN);
  const identity = await decideAs(context, deviceId, 'transfer', { kind: 'released', actor, defaultName });
  recordSecurityEvent(context, { userId: actor.userId, kind: 'device_released', detail: { deviceId } });
  await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  await transfers.deleteTransfer(context.primary(), deviceId);
  return { deviceId };
}

export async function undoClaim(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { device, product } = await requireDevice(context, actor, deviceId, 'undoClaim');
  const defaultName = nameOf(product.name, device.deviceSN);
  const undone = { kind: 'claim_undone', actor, defaultName, address: context.clientAddress } as const;
  const { formerOwnerId: otherId, ...identity } = await decideAs(context, deviceId, 'undoClaim', undone);
  recordSecurityEvent(context, { userId: actor.userId, otherId, kind: 'claim_undone', detail: { deviceId } });
  await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  await transfers.deleteTransfer(context.primary(), deviceId);
  return { deviceId };
}

/** The answer does not tell whether the e-mail has an account. */
export async function offerDevice(context: ServiceContext, actor: Actor, deviceId: string, email: string) {
  const db = context.primary();
  const { limits } = context.config;
  await requireDevice(context, actor, deviceId, 'transfer');
  const sender = await requireUser(context, actor.userId);
  requireVerified(context.config, sender);
  const foldedEmail = foldName(email);
  if (sender.foldedEmail === foldedEmail) throw invalidInput('email', 'is your own');
  const offeredAtMs = Date.now();
  const expiresAtMs = offeredAtMs + offerMs;
  const offerId = createId('', 16);
  const between = { foldedEmail, fromUserId: actor.userId, nowMs: offeredAtMs };
  const toUserId = (await transfers.findRecipient(db, between, context.config.mail !== undefined)) ?? null;
  const row = { deviceId, offerId, fromUserId: actor.userId, toUserId, offeredAt: offeredAtMs, expiresAt: expiresAtMs };
  if (!(await transfers.putTransfer(db, row, limits))) {
    throw limitReached('transferOffersPerUser', limits.transferOffersPerUser);
  }
  const offer = { offerId, email, toUserId, offeredAtMs, expiresAtMs };
  try {
    const offered = { kind: 'transfer_offered', actor, offer, address: context.clientAddress } as const;
    await decideAs(context, deviceId, 'transfer', offered);
  } catch (error) {
    // Nobody could accept it; the offer before, if there was one, is withdrawn by this.
    await transfers.deleteTransfer(db, deviceId, offerId);
    throw error;
  }
  return { deviceId, email, expiresAt: toIso(expiresAtMs) };
}

export async function withdrawOffer(context: ServiceContext, actor: Actor, deviceId: string) {
  const { clientAddress: address } = context;
  await decideAs(context, deviceId, 'transfer', { kind: 'transfer_withdrawn', actor, address });
  await transfers.deleteTransfer(context.primary(), deviceId);
  return { deviceId };
}

export async function answerOffer(context: ServiceContext, userId: number, deviceId: string, isAccepted: boolean) {
  const requestedAtMs = Date.now();
  const db = context.primary();
  const offer = await transfers.findTransfer(db, requireDeviceId(deviceId), userId);
  if (offer === undefined) throw notFound('transfer', deviceId);
  const { offerId, fromUserId: otherId } = offer;
  const event = { kind: 'transfer_answered', userId, offerId, isAccepted, address: context.clientAddress } as const;
  const { mustRenew, ...identity } = await decide(context, deviceId, event);
  if (isAccepted) recordSecurityEvent(context, { userId, otherId, kind: 'device_transferred', detail: { deviceId } });
  if (mustRenew) await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  await transfers.deleteTransfer(db, deviceId, offerId);
  return { deviceId, mustRenew };
}

export async function pageOffers(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await transfers.listTransfersTo(context.primary(), userId, Date.now(), page);
  const list = rows.map(({ offeredAt, expiresAt, ...offer }) => ({
    ...offer,
    offeredAt: toIso(offeredAt),
    expiresAt: toIso(expiresAt),
  }));
  return { list, total, ...page };
}

export function readOwnership(context: ServiceContext, actor: Actor, deviceId: string) {
  return askDeviceAs(context, actor, deviceId, {
    action: 'transfer',
    ask: (session) => session.readOwnership(actor),
  });
}

/** The window admits one network. With the claim token the device activates from any other, too. */
export async function openPairingWindow(context: ServiceContext, actor: Actor, deviceId: string, anyNetwork: boolean) {
  const { clientAddress: address } = context;
  const { device } = await requireDevice(context, actor, deviceId, 'pair');
  const { pairingWindowSeconds } = context.config.limits;
  const untilMs = Date.now() + pairingWindowSeconds * 1000;
  const boundTo = `${device.productId} ${device.deviceSN}`;
  const { token, apiUrl } = await createClaimToken(context, actor, pairingWindowSeconds, { boundTo });
  const pairing = { untilMs, network: anyNetwork ? null : address };
  await decideAs(context, deviceId, 'pair', { kind: 'pairing_window_set', actor, pairing, address });
  return { deviceId, pairingUntil: toIso(untilMs), token, apiUrl };
}

export async function closePairingWindow(context: ServiceContext, actor: Actor, deviceId: string) {
  const { clientAddress: address } = context;
  await decideAs(context, deviceId, 'pair', { kind: 'pairing_window_set', actor, pairing: null, address });
  return { deviceId, pairingUntil: null };
}
