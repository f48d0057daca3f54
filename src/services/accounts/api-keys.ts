// API keys: making, listing, deleting, and finding out whose key a request carries. The value leaves this service
// once, at creation.
import { runInBackground, type ServiceContext } from '../../context.ts';
import { createSecret, digestOf, isEqualDigest } from '../../crypto/secrets.ts';
import * as keys from '../../db/accounts/api-keys.ts';
import { countDevices } from '../../db/devices/lists.ts';
import { findProduct } from '../../db/products/products.ts';
import { actorOf, scopes } from '../../domain/access.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import {
  accept,
  credentialRefused,
  invalidInput,
  limitReached,
  notFound,
  refuse,
  RefusedError,
} from '../../domain/refusal.ts';
import type { ApiKeyBody } from '../../protocol/http/users.ts';
import { callHome, hasAnswer, tellRelays } from '../../objects/calls/stubs.ts';
import { recordSecurityEvent } from './security-events.ts';
import { isWithinShield } from '../../pacing/rate-limits.ts';
import { BlockedAddresses, rememberNewest } from '../../domain/newest.ts';
import { toIso } from '../../domain/time.ts';

const shield = 'KEY_FAILURE_LIMIT';
/** A key that was deleted elsewhere counts no longer than this, so that it ends everywhere within a second. */
const cacheMs = 1_000;
/** A key in use is read again before that, beside the request, so that requests do not wait for the database. */
const refreshAfterMs = 500;
const unknownMs = 60_000;
const touchEveryMs = 60_000;

type KnownKey = keys.ApiKeyRow & { readAtMs: number; isRefreshing: boolean };

const maxRemembered = 1_000;

// Per isolate. Known keys stay beyond `cacheMs`: they are read again even for a blocked address.
// Ids that no key has are random, so that none of them will be one.
const knownKeys = new Map<string, KnownKey>();
const unknownUntilMs = new Map<string, number>();
/** Client addresses that failed too often: from there only known keys are read. */
const blocked = new BlockedAddresses();
let deletionCount = 0;

export async function createApiKey(
  context: ServiceContext,
  userId: number,
  { description, scopes: requested, productKey = null, deviceIds = null }: ApiKeyBody,
) {
  // In the order of the table, each once.
  const granted = scopes.filter((scope) => requested?.includes(scope) ?? (scope !== 'manage' || deviceIds === null));
  if (deviceIds !== null) {
    if (granted.includes('manage')) throw invalidInput('scopes', 'no `manage` with `deviceIds`');
    const found = await countDevices(context.primary(), { userId, deviceIds });
    if (found < deviceIds.length) throw notFound('device');
  }
  // Of any owner: a user may have devices of somebody else's product.
  if (productKey !== null && (await findProduct(context.primary(), productKey)) === undefined) {
    throw notFound('product', productKey);
  }
  const keyId = createSecret('ak_', 20);
  const apiKey = createSecret('sk_', 40);
  const secretHash = await digestOf(apiKey);
  const limitedTo = { scopes: granted, productKey, deviceIds };
  const row = { keyId, userId, secretHash, description, ...limitedTo, createdAt: Date.now() };
  const outcome = await keys.insertApiKey(context.primary(), row, context.config.limits);
  if (outcome === 'no_user') throw new RefusedError(credentialRefused('session', 'unknown_account'));
  if (outcome !== 'made') throw limitReached('apiKeysPerUser', outcome.max);
  recordSecurityEvent(context, { userId, kind: 'key_made', detail: { keyId } });
  // The members of the contract alone, if the request had no others.
  if (requested === undefined && productKey === null && deviceIds === null) return { keyId, apiKey, description };
  return { keyId, apiKey, description, ...limitedTo };
}

export async function pageApiKeys(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await keys.listApiKeys(context.primary(), userId, page);
  const list = rows.map(({ keyId, description, scopes: granted, productKey, deviceIds, createdAt, lastUsedAt }) => {
    const times = { createdAt: toIso(createdAt), lastUsedAt: toIso(lastUsedAt) };
    return { keyId, description, scopes: granted, productKey, deviceIds, ...times };
  });
  return { list, total, ...page };
}

export async function removeApiKey(context: ServiceContext, userId: number, keyId: string) {
  const database = context.primary();
  const isDeleted = await keys.deleteApiKey(database, userId, keyId);
  await noteEndedKeys(context, isDeleted ? [keyId] : []);
  if (isDeleted) recordSecurityEvent(context, { userId, kind: 'key_deleted', detail: { keyId } });
  if (isDeleted) return { keyId };
  const isKnown = (await keys.findApiKey(database, keyId)) !== undefined;
  throw isKnown ? new RefusedError({ kind: 'not_owner', of: 'api_key', id: keyId }) : notFound('api_key', keyId);
}

/** After their rows are gone: they end here, and their sockets at the relay. */
export async function noteEndedKeys({ env }: ServiceContext, keyIds: readonly string[]): Promise<void> {
  deletionCount += 1;
  for (const keyId of keyIds) knownKeys.delete(keyId);
  if (keyIds.length === 0) return;
  await Promise.all([tellRelays(env, (relay) => relay.endKeys(keyIds)), endHomes({ env }, keyIds)]);
}

/** Of keys that end, or whose account is disabled. A home that cannot be told finds out within five minutes. */
export async function endHomes({ env }: Pick<ServiceContext, 'env'>, keyIds: readonly string[]): Promise<void> {
  await Promise.all(keyIds.map((keyId) => hasAnswer(callHome(env, keyId, 'idempotent').end())));
}

/** Whose key this is. An address with too many wrong pairs is refused, except with keys that are known here. */
export async function authenticateKey(context: ServiceContext, keyId: string, secret: string) {
  const { clientAddress } = context;
  const retryAfterSeconds = blocked.secondsLeft(clientAddress);
  if (retryAfterSeconds > 0 && !knownKeys.has(keyId)) {
    return refuse({ kind: 'rate_limited', limit: shield, retryAfterSeconds });
  }
  const key = await readKey(context, keyId);
  if (key === undefined || !isEqualDigest(await digestOf(secret), key.secretHash)) {
    if (!(await isWithinShield(context, shield, clientAddress))) blocked.block(clientAddress);
    return refuse(credentialRefused('api_key', 'wrong'));
  }
  const nowMs = Date.now();
  if (nowMs - (key.lastUsedAt ?? 0) >= touchEveryMs) {
    key.lastUsedAt = nowMs;
    runInBackground('note use of API key', keys.touchApiKey(context.primary(), keyId, nowMs, nowMs - touchEveryMs));
  }
  return accept(actorOf(key));
}

async function readKey(context: ServiceContext, keyId: string): Promise<KnownKey | undefined> {
  const nowMs = Date.now();
  const remembered = knownKeys.get(keyId);
  if (remembered !== undefined && nowMs - remembered.readAtMs < cacheMs) {
    if (nowMs - remembered.readAtMs >= refreshAfterMs && !remembered.isRefreshing) {
      remembered.isRefreshing = true;
      runInBackground('read API key again', fetchKey(context, keyId));
    }
    return remembered;
  }
  if ((unknownUntilMs.get(keyId) ?? 0) > nowMs) return undefined;
  return fetchKey(context, keyId);
}

async function fetchKey(context: ServiceContext, keyId: string): Promise<KnownKey | undefined> {
  const readAtMs = Date.now();
  const deletionsBefore = deletionCount;
  const row = await keys.findApiKey(context.primary(), keyId);
  if (row === undefined) {
    knownKeys.delete(keyId);
    rememberNewest(unknownUntilMs, keyId, readAtMs + unknownMs, maxRemembered);
    return undefined;
  }
  const entry = { ...row, readAtMs, isRefreshing: false };
  // This read may have begun before a deletion: then its result must not bring the key back.
  if (deletionCount === deletionsBefore) rememberNewest(knownKeys, keyId, entry, maxRemembered);
  return entry;
}
