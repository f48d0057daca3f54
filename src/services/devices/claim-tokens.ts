// Claim tokens: a part of the service address that a phone gives a device, which makes the token's user the owner of what
// activates with it (decision: ownership). Whether a device may be claimed, its session decides; here a claim code is compared.
import { createId, digestOf, isEqualDigest } from '../../crypto/secrets.ts';
import { findClaimToken, insertClaimToken, useClaimToken } from '../../db/devices/claim-tokens.ts';
import { findDeviceBySerial } from '../../db/devices/devices.ts';
import { findProduct } from '../../db/products/products.ts';
import { requireRightOfKey, type Actor } from '../../domain/access.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import { limitReached, notFound, rateLimited, RefusedError } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import type { ClaimTokenBody } from '../../protocol/http/ownership.ts';
import { holdToShield, isWithinShield } from '../../pacing/rate-limits.ts';
import { toIso } from '../../domain/time.ts';

const tokenLength = 20;
const tokenPattern = /^[0-9a-hjkmnp-tv-z]{20}$/;
const shield = 'CLAIM_FAILURE_LIMIT';

const blocked = new BlockedAddresses();

export async function createClaimToken(
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
  if (!(await insertClaimToken(context.primary(), { ...row, ...bound }, limits))) {
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
  const row = tokenPattern.test(token) ? await findClaimToken(db, await digestOf(token), Date.now()) : undefined;
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
    ? await useClaimToken(context.primary(), await digestOf(token), usedBy, Date.now())
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
