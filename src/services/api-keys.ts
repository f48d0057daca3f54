// API keys: making, listing, deleting, and finding out whose key a request carries. The value leaves this service
// once, at creation.
import { runInBackground } from '../background.ts';
import { createSecret, digestOf, hasDigest } from '../crypto/secrets.ts';
import { deleteApiKey, findApiKey, insertApiKey, listApiKeys, touchApiKey } from '../db/api-keys.ts';
import type { PageRequest } from '../domain/pagination.ts';
import { credentialRefused, refuse, RefusedError, type Outcome } from '../domain/refusal.ts';
import type { ServiceContext } from './context.ts';

// The forms that `createApiKey` makes; anything else is refused without a database read.
const keyIdPattern = /^ak_[A-Za-z0-9]{20}$/;
const apiKeyPattern = /^sk_[A-Za-z0-9]{40}$/;
const cacheMs = 3_000;
const maxCachedKeys = 1_000;
const touchEveryMs = 60_000;

type CachedKey = { userId: number; secretHash: string; lastUsedAt: number | null; readAtMs: number };

// Saves a database read a request on the hot paths. Another isolate may have deleted the key, so an entry counts for
// 3 s; a deletion in this isolate takes effect at once.
const cachedKeys = new Map<string, CachedKey>();
let deletionCount = 0;

/** @throws RefusedError too_many_api_keys, unauthorized where the account is gone */
export async function createApiKey(context: ServiceContext, userId: number, description: string) {
  const keyId = createSecret('ak_', 20);
  const apiKey = createSecret('sk_', 40);
  const secretHash = await digestOf(apiKey);
  const row = { keyId, userId, secretHash, description, createdAt: Date.now() };
  const outcome = await insertApiKey(context.primary(), row, context.config.limits);
  if (outcome === 'no-user') throw new RefusedError(credentialRefused('session', 'unknown_account'));
  if (outcome !== 'made') {
    throw new RefusedError({ kind: 'limit_reached', limit: { name: 'apiKeysPerUser', max: outcome.max } });
  }
  return { keyId, apiKey, description };
}

export async function pageApiKeys(context: ServiceContext, userId: number, page: PageRequest) {
  const { total, rows } = await listApiKeys(context.primary(), userId, page);
  const list = rows.map((row) => ({
    keyId: row.keyId,
    description: row.description,
    createdAt: new Date(row.createdAt).toISOString(),
    lastUsedAt: row.lastUsedAt === null ? null : new Date(row.lastUsedAt).toISOString(),
  }));
  return { list, total, ...page };
}

/** @throws RefusedError not_found, forbidden */
export async function removeApiKey(context: ServiceContext, userId: number, keyId: string) {
  const database = context.primary();
  const isDeleted = await deleteApiKey(database, userId, keyId);
  deletionCount += 1;
  cachedKeys.delete(keyId);
  if (isDeleted) return { keyId };
  const isKnown = (await findApiKey(database, keyId)) !== undefined;
  throw new RefusedError(
    isKnown ? { kind: 'not_owner', of: 'api_key', id: keyId } : { kind: 'not_found', what: 'api_key', id: keyId },
  );
}

/** Whose key this is. Notes the time of the last use in the background, at most once a minute. */
export async function authenticateKey(
  context: ServiceContext,
  keyId: string,
  secret: string,
): Promise<Outcome<number>> {
  if (!keyIdPattern.test(keyId) || !apiKeyPattern.test(secret))
    return refuse(credentialRefused('api_key', 'malformed'));
  const key = await readKey(context, keyId);
  if (key === undefined || !(await hasDigest(secret, key.secretHash)))
    return refuse(credentialRefused('api_key', 'wrong'));
  const nowMs = Date.now();
  if (nowMs - (key.lastUsedAt ?? 0) >= touchEveryMs) {
    key.lastUsedAt = nowMs;
    runInBackground('note use of API key', touchApiKey(context.primary(), keyId, nowMs, nowMs - touchEveryMs));
  }
  return { ok: true, value: key.userId };
}

async function readKey(context: ServiceContext, keyId: string): Promise<CachedKey | undefined> {
  const nowMs = Date.now();
  const cached = cachedKeys.get(keyId);
  if (cached !== undefined && nowMs - cached.readAtMs < cacheMs) return cached;
  const deletionsBefore = deletionCount;
  const row = await findApiKey(context.primary(), keyId);
  if (row === undefined) {
    cachedKeys.delete(keyId);
    return undefined;
  }
  const { userId, secretHash, lastUsedAt } = row;
  const entry = { userId, secretHash, lastUsedAt, readAtMs: nowMs };
  // This read may have begun before a deletion: then its result must not bring the key back.
  if (deletionCount === deletionsBefore) {
    if (cachedKeys.size >= maxCachedKeys) cachedKeys.clear();
    cachedKeys.set(keyId, entry);
  }
  return entry;
}
