// How a device passes from owner to owner: claimed, released, offered, accepted; and its pairing window (decision: ownership). The
// device's session decides; D1 has the offers for the list of whom they are made to. A claim token is a part of the service address that
// a phone gives a device, which makes the token's user the owner of what activates with it; a claim code is compared here.
import { createId, digestOf, isEqualDigest } from '../../crypto/secrets.ts';
import * as records from '../../db/devices/ownership.ts';
import { type Actor, requireRightOfKey } from '../../domain/access.ts';
import { foldName, nameOf } from '../../domain/names.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { invalidInput, limitReached, notFound, rateLimited, RefusedError } from '../../domain/refusal.ts';
import { recordSecurityEvent } from '../accounts/security-events.ts';
import { endAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { requireUser } from '../accounts/accounts.ts';
import { requireVerified } from '../accounts/email-verification.ts';
import { askDeviceAs, decide, decideAs, requireDevice, requireDeviceId } from './device-access.ts';
import { findDeviceBySerial } from '../../db/devices/devices.ts';
import { findProduct } from '../../db/products/products.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import type { ClaimTokenBody } from '../../protocol/http/ownership.ts';
import { holdToShield, isWithinShield } from '../../pacing/rate-limits.ts';

const offerMs = 7 * dayMs;

export async function releaseDevice(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { device, product } = await requireDevice(context, actor, deviceId, 'transfer');
  const defaultName = nameOf(product.name, device.deviceSN);
  const identity = await decideAs(context, deviceId, 'transfer', { kind: 'released', actor, defaultName });
  recordSecurityEvent(context, { userId: actor.userId, kind: 'device_released', detail: { deviceId } });
  await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  await records.deleteTransfer(context.primary(), deviceId);
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
  await records.deleteTransfer(context.primary(), deviceId);
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
  const toUserId = (await records.findRecipient(db, between, context.config.mail !== undefined)) ?? null;
  const row = { deviceId, offerId, fromUserId: actor.userId, toUserId, offeredAt: offeredAtMs, expiresAt: expiresAtMs };
  if (!(await records.putTransfer(db, row, limits))) {
    throw limitReached('transferOffersPerUser', limits.transferOffersPerUser);
  }
  const offer = { offerId, email, toUserId, offeredAtMs, expiresAtMs };
  try {
    const offered = { kind: 'transfer_offered', actor, offer, address: context.clientAddress } as const;
    await decideAs(context, deviceId, 'transfer', offered);
  } catch (error) {
    // Nobody could accept it; the offer before, if there was one, is withdrawn by this.
    await records.deleteTransfer(db, deviceId, offerId);
    throw error;
  }
  return { deviceId, email, expiresAt: toIso(expiresAtMs) };
}

export async function withdrawOffer(context: ServiceContext, actor: Actor, deviceId: string) {
  const { clientAddress: address } = context;
  await decideAs(context, deviceId, 'transfer', { kind: 'transfer_withdrawn', actor, address });
  await records.deleteTransfer(context.primary(), deviceId);
  return { deviceId };
}

export async function answerOffer(context: ServiceContext, userId: number, deviceId: string, isAccepted: boolean) {
  const requestedAtMs = Date.now();
  const db = context.primary();
  const offer = await records.findTransfer(db, requireDeviceId(deviceId), userId);
  if (offer === undefined) throw notFound('transfer', deviceId);
  const { offerId, fromUserId: otherId } = offer;
  const event = { kind: 'transfer_answered', userId, offerId, isAccepted, address: context.clientAddress } as const;
  const { mustRenew, ...identity } = await decide(context, deviceId, event);
  if (isAccepted) recordSecurityEvent(context, { userId, otherId, kind: 'device_transferred', detail: { deviceId } });
  if (mustRenew) await endAtBroker(context, identity, { kind: 'disable' }, requestedAtMs);
  await records.deleteTransfer(db, deviceId, offerId);
  return { deviceId, mustRenew };
}

export async function pageOffers(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await records.listTransfersTo(context.primary(), userId, Date.now(), page);
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

const tokenLength = 20;
const tokenPattern = /^[0-9a-hjkmnp-tv-z]{20}$/;
const shield = 'CLAIM_FAILURE_LIMIT';

const blocked = new BlockedAddresses();

async function createClaimToken(
  context: ServiceContext,
  actor: Actor,
  expiresInSeconds: number,
  bound: { boundTo?: string; hasShownCode?: boolean } = {},
) {
  requireRightOfKey(actor, 'claimDevices', undefined);
  const { limits } = context.config;
  const token = createId('', tokenLength);
  const createdAt = Date.now();
  const expiresAt = createdAt + expiresInSeconds * 1000;
  const { userId, productKey, keyId: madeByKey } = actor;
  const row = { hash: await digestOf(token), userId, createdAt, expiresAt, productKey, madeByKey };
  if (!(await records.insertClaimToken(context.primary(), { ...row, ...bound }, limits))) {
    throw limitReached('claimTokensPerUser', limits.claimTokensPerUser);
  }
  return { token, apiUrl: `${new URL(context.requestUrl).origin}/t/${token}`, expiresAt: toIso(expiresAt) };
}

/** @throws RefusedError claim_code_refused for a wrong code and for an unknown serial number */
export async function requestClaimToken(
  context: ServiceContext,
  actor: Actor,
  { expiresIn = 900, deviceSN = '', claimCode = '', productKey = '' }: ClaimTokenBody,
) {
  if (deviceSN + claimCode + productKey === '') return createClaimToken(context, actor, expiresIn);
  requireRightOfKey(actor, 'claimDevices', productKey);
  refuseBlocked(context);
  await holdToShield(context, shield, `code ${productKey} ${deviceSN}`);
  const product = await findProduct(context.primary(), productKey);
  const device = product && (await findDeviceBySerial(context.primary(), product.id, deviceSN));
  const digest = await digestOfClaimCode(productKey, deviceSN, claimCode);
  if (device === undefined || !isEqualDigest(device.claimCodeDigest ?? '', digest)) {
    await countFailure(context);
    throw new RefusedError({ kind: 'claim_code_refused' });
  }
  const bound = { boundTo: `${device.productId} ${deviceSN}`, hasShownCode: true };
  return createClaimToken(context, actor, expiresIn, bound);
}

/** With its serial number: equal codes of two devices have different digests. */
export function digestOfClaimCode(productKey: string, deviceSN: string, claimCode: string): Promise<string> {
  return digestOf(`claim code\n${productKey}\n${deviceSN}\n${claimCode}`);
}

export async function describeClaimToken(context: ServiceContext, actor: Actor, token: string) {
  requireRightOfKey(actor, 'claimDevices', undefined);
  const db = context.primary();
  const row = tokenPattern.test(token)
    ? await records.findClaimToken(db, await digestOf(token), Date.now())
    : undefined;
  if (row === undefined) throw notFound('claim_token');
  if (row.userId !== actor.userId) throw new RefusedError({ kind: 'not_owner', of: 'claim_token', id: '' });
  requireRightOfKey(actor, 'claimDevices', row.productKey ?? '');
  const [productId = '', deviceSN = ''] = (row.usedBy ?? '').split(/ (.*)/s);
  const device = row.usedBy === null ? undefined : await findDeviceBySerial(db, Number(productId), deviceSN);
  const isHere = device !== undefined && device.activatedAt !== null && device.ownerId === actor.userId;
  return { deviceId: isHere ? device.deviceId : null, expiresAt: toIso(row.expiresAt) };
}

/** From then on the token works for this device alone, until it expires: an answer may be lost. */
export async function readClaimToken(
  context: ServiceContext,
  token: string,
  usedBy: { device: string; productKey: string },
) {
  refuseBlocked(context);
  const used = tokenPattern.test(token)
    ? await records.useClaimToken(context.primary(), await digestOf(token), usedBy, Date.now())
    : undefined;
  if (used !== undefined) return used;
  await countFailure(context);
  throw new RefusedError({ kind: 'claim_token_refused' });
}

function refuseBlocked({ clientAddress }: ServiceContext): void {
  const retryAfterSeconds = blocked.secondsLeft(clientAddress);
  if (retryAfterSeconds > 0) throw rateLimited(shield, retryAfterSeconds);
}

async function countFailure(context: ServiceContext): Promise<void> {
  const { clientAddress } = context;
  if (!(await isWithinShield(context, shield, clientAddress))) blocked.block(clientAddress);
}
