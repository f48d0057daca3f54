// Claim tokens: a part of the service address that a phone gives a device, which makes the token's user the owner of what
// activates with it (decision: ownership). Whether a device may be claimed, its session decides.
import { createId, digestOf } from '../../crypto/secrets.ts';
import { findClaimToken, insertClaimToken, useClaimToken } from '../../db/devices/claim-tokens.ts';
import { findDeviceBySerial } from '../../db/devices/devices.ts';
import { requireRightOfKey, type Actor } from '../../domain/access.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import { limitReached, RefusedError } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import { isWithinShield } from '../../pacing/rate-limits.ts';
import { toIso } from '../../domain/time.ts';

const tokenLength = 20;
const tokenPattern = /^[0-9a-hjkmnp-tv-z]{20}$/;
const shield = 'CLAIM_FAILURE_LIMIT';

const blocked = new BlockedAddresses();

/** @param boundTo `<product id> <serial>`: claims this device alone */
export async function createClaimToken(
  context: ServiceContext,
  actor: Actor,
  base: string,
  expiresInSeconds: number,
  boundTo: string | null = null,
) {
  requireRightOfKey(actor, 'claimDevices', undefined);
  const { limits } = context.config;
  const token = createId('', tokenLength);
  const createdAt = Date.now();
  const expiresAt = createdAt + expiresInSeconds * 1000;
  const row = { hash: await digestOf(token), userId: actor.userId, createdAt, expiresAt, boundTo };
  if (!(await insertClaimToken(context.primary(), row, limits))) {
    throw limitReached('claimTokensPerUser', limits.claimTokensPerUser);
  }
  return { token, apiUrl: `${base}/t/${token}`, expiresAt: toIso(expiresAt) };
}

export async function describeClaimToken(context: ServiceContext, actor: Actor, token: string) {
  requireRightOfKey(actor, 'claimDevices', undefined);
  const db = context.primary();
  const row = tokenPattern.test(token) ? await findClaimToken(db, await digestOf(token), Date.now()) : undefined;
  if (row === undefined) throw new RefusedError({ kind: 'not_found', what: 'claim_token' });
  if (row.userId !== actor.userId) throw new RefusedError({ kind: 'not_owner', of: 'claim_token', id: '' });
  const [productId = '', deviceSN = ''] = (row.usedBy ?? '').split(/ (.*)/s);
  const device = row.usedBy === null ? undefined : await findDeviceBySerial(db, Number(productId), deviceSN);
  const isHere = device !== undefined && device.activatedAt !== null && device.ownerId === actor.userId;
  return { deviceId: isHere ? device.deviceId : null, expiresAt: toIso(row.expiresAt) };
}

/** From then on the token works for `usedBy` alone, until it expires: an answer may be lost. */
export async function readClaimToken(context: ServiceContext, token: string, usedBy: string, clientAddress: string) {
  const retryAfterSeconds = blocked.secondsLeft(clientAddress);
  if (retryAfterSeconds > 0) throw new RefusedError({ kind: 'rate_limited', limit: shield, retryAfterSeconds });
  const userId = tokenPattern.test(token)
    ? await useClaimToken(context.primary(), await digestOf(token), usedBy, Date.now())
    : undefined;
  if (userId !== undefined) return userId;
  if (!(await isWithinShield(context, shield, clientAddress))) blocked.block(clientAddress);
  throw new RefusedError({ kind: 'claim_token_refused' });
}
