// API keys: making, listing, deleting, and finding out whose key a request carries. The value leaves this service
// once, at creation.
import { createSecret, digestOf, hasDigest } from '../crypto/secrets.ts';
import { deleteApiKey, findApiKey, insertApiKey, listApiKeys, touchApiKey } from '../db/api-keys.ts';
import { openDatabase } from '../db/client.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { PageRequest } from '../domain/pagination.ts';
import type { ServiceContext } from './context.ts';

const maxKeysPerUser = 20;
// What `createApiKey` makes; anything else is no key and not worth a database read.
const keyIdPattern = /^ak_[A-Za-z0-9]{20}$/;
const apiKeyPattern = /^sk_[A-Za-z0-9]{40}$/;
const cacheMs = 3_000;
const maxCachedKeys = 1_000;
const touchEveryMs = 60_000;

type CachedKey = { userId: number; secretHash: string; lastUsedAt: number | null; readAtMs: number };

// A key used on the hot path must not cost a database read a request. Another isolate may have deleted it, so an
// entry is believed for 3 s; a deletion in this isolate takes effect at once.
const cachedKeys = new Map<string, CachedKey>();
let deletionCount = 0;

/** @throws RefusedError too_many_api_keys, unauthorized for a user who is no more */
export async function createApiKey(context: ServiceContext, userId: number, description: string) {
  const keyId = createSecret('ak_', 20);
  const apiKey = createSecret('sk_', 40);
  const secretHash = await digestOf(apiKey);
  const row = { keyId, userId, secretHash, description, createdAt: Date.now() };
  const outcome = await insertApiKey(openDatabase(context.env.DB, 'first-primary'), row, maxKeysPerUser);
  if (outcome === 'no-user') {
    throw new RefusedError({ kind: 'credential_refused', credential: 'session', problem: 'unknown_account' });
  }
  if (outcome === 'too-many') {
    throw new RefusedError({ kind: 'limit_reached', limit: { name: 'api_keys_per_user', max: maxKeysPerUser } });
  }
  return { keyId, apiKey, description };
}

export async function pageApiKeys(context: ServiceContext, userId: number, page: PageRequest) {
  const database = openDatabase(context.env.DB, 'first-primary');
  const { total, rows } = await listApiKeys(database, userId, page);
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
  const database = openDatabase(context.env.DB, 'first-primary');
  const isDeleted = await deleteApiKey(database, userId, keyId);
  deletionCount += 1;
  cachedKeys.delete(keyId);
  if (isDeleted) return { keyId };
  const isKnown = (await findApiKey(database, keyId)) !== undefined;
  throw new RefusedError(
    isKnown ? { kind: 'not_owner', of: 'api_key', id: keyId } : { kind: 'not_found', what: 'api_key', id: keyId },
  );
}

/**
 * Whose key this is; undefined unless key and secret belong together. `defer` takes work that the request does not
 * wait for: the time of the last use, at most once a minute.
 */
export async function authenticateKey(
  context: ServiceContext,
  keyId: string,
  secret: string,
  defer: (work: Promise<void>) => void,
): Promise<{ userId: number } | undefined> {
  if (!keyIdPattern.test(keyId) || !apiKeyPattern.test(secret)) return undefined;
  const key = await readKey(context, keyId);
  if (key === undefined || !(await hasDigest(secret, key.secretHash))) return undefined;
  const nowMs = Date.now();
  if (nowMs - (key.lastUsedAt ?? 0) >= touchEveryMs) {
    key.lastUsedAt = nowMs;
    defer(touchApiKey(openDatabase(context.env.DB, 'first-primary'), keyId, nowMs, nowMs - touchEveryMs));
  }
  return { userId: key.userId };
}

async function readKey(context: ServiceContext, keyId: string): Promise<CachedKey | undefined> {
  const nowMs = Date.now();
  const cached = cachedKeys.get(keyId);
  if (cached !== undefined && nowMs - cached.readAtMs < cacheMs) return cached;
  const deletionsBefore = deletionCount;
  const row = await findApiKey(openDatabase(context.env.DB, 'first-primary'), keyId);
  if (row === undefined) {
    cachedKeys.delete(keyId);
    return undefined;
  }
  const { userId, secretHash, lastUsedAt } = row;
  const entry = { userId, secretHash, lastUsedAt, readAtMs: nowMs };
  // A deletion that overtook this read must not be undone by its result.
  if (deletionCount === deletionsBefore) {
    if (cachedKeys.size >= maxCachedKeys) cachedKeys.clear();
    cachedKeys.set(keyId, entry);
  }
  return entry;
}
