// Queries on API keys, of whose values only the digests are stored.
import { and, desc, eq, isNull, lt, or, sql } from 'drizzle-orm';
import type { PageRequest } from '../domain/pagination.ts';
import { readPage, runTogether, type Database } from './client.ts';
import { apiKeys, users } from './schema.ts';
import { limitOf, type UserLimits } from './user-limits.ts';

type ApiKeyRow = typeof apiKeys.$inferSelect;

export async function findApiKey(database: Database, keyId: string): Promise<ApiKeyRow | undefined> {
  return database.select().from(apiKeys).where(eq(apiKeys.keyId, keyId)).get();
}

/**
 * One conditional statement, so that simultaneous creations cannot exceed the limit together.
 * @returns the user's limit where it is reached
 */
export async function insertApiKey(
  database: Database,
  row: Omit<ApiKeyRow, 'lastUsedAt'>,
  limits: UserLimits<'apiKeysPerUser'>,
): Promise<'made' | 'no-user' | { max: number }> {
  const max = limitOf(row.userId, 'apiKeysPerUser', limits);
  const [inserted, user] = await runTogether<[unknown, { max: number }]>(database, [
    sql`
      insert into ${apiKeys} (key_id, user_id, secret_hash, description, scopes, product_key, created_at)
      select ${row.keyId}, id, ${row.secretHash}, ${row.description}, ${JSON.stringify(row.scopes)}, ${row.productKey},
        ${row.createdAt}
      from ${users} where id = ${row.userId}
        and (select count(*) from ${apiKeys} where user_id = ${row.userId}) < ${max}`,
    sql`select ${max} as max from ${users} where id = ${row.userId}`,
  ]);
  if (inserted.meta.changes === 1) return 'made';
  return user.results[0] ?? 'no-user';
}

export async function listApiKeys(database: Database, userId: number, page: PageRequest) {
  const mine = eq(apiKeys.userId, userId);
  const rows = database.select().from(apiKeys).where(mine).orderBy(desc(apiKeys.createdAt), desc(apiKeys.keyId));
  return readPage(database, apiKeys, mine, rows.$dynamic(), page);
}

export async function deleteApiKey(database: Database, userId: number, keyId: string): Promise<boolean> {
  const result = await database.delete(apiKeys).where(and(eq(apiKeys.keyId, keyId), eq(apiKeys.userId, userId)));
  return result.meta.changes === 1;
}

/** Stores the time of the last use, unless one later than `staleBefore` is stored. */
export async function touchApiKey(database: Database, keyId: string, usedAt: number, staleBefore: number) {
  await database
    .update(apiKeys)
    .set({ lastUsedAt: usedAt })
    .where(and(eq(apiKeys.keyId, keyId), or(isNull(apiKeys.lastUsedAt), lt(apiKeys.lastUsedAt, staleBefore))));
}
