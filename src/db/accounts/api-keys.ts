// Queries on API keys, of whose values only the digests are stored.
import { and, eq, getTableColumns, isNull, lt, or, sql, type SQL, type SQLWrapper } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { runTogether, type Database, insertSelect } from '../client.ts';
import { lengthOf, readPageByIndex } from '../pages.ts';
import { apiKeys, users } from '../schema/accounts.ts';
import { claimTokens, deviceInvitations } from '../schema/devices.ts';
import { limitOf, type UserLimits } from './users.ts';

export type ApiKeyRow = typeof apiKeys.$inferSelect;

/** undefined for keys of a disabled account, too. */
export async function findApiKey(database: Database, keyId: string): Promise<ApiKeyRow | undefined> {
  return database
    .select(getTableColumns(apiKeys))
    .from(apiKeys)
    .innerJoin(users, and(eq(users.id, apiKeys.userId), isNull(users.disabledAt)))
    .where(eq(apiKeys.keyId, keyId))
    .get();
}

export async function findApiKeys(database: Database, keyIds: readonly string[]): Promise<string[]> {
  // One binding, however many there are.
  const wanted = sql`(select value from json_each(${JSON.stringify(keyIds)}))`;
  const rows = await database
    .select({ keyId: apiKeys.keyId })
    .from(apiKeys)
    .innerJoin(users, and(eq(users.id, apiKeys.userId), isNull(users.disabledAt)))
    .where(sql`${apiKeys.keyId} in ${wanted}`);
  return rows.map(({ keyId }) => keyId);
}

export async function listKeyIds(database: Database, userId: number): Promise<string[]> {
  const rows = await database.select({ keyId: apiKeys.keyId }).from(apiKeys).where(eq(apiKeys.userId, userId));
  return rows.map(({ keyId }) => keyId);
}

export async function insertApiKey(
  database: Database,
  row: Omit<ApiKeyRow, 'lastUsedAt'>,
  limits: UserLimits<'apiKeysPerUser'>,
): Promise<'made' | 'no_user' | { max: number }> {
  const max = limitOf(row.userId, 'apiKeysPerUser', limits);
  const [inserted, user] = await runTogether<[{ key_id: string }, { max: number }]>(database, [
    sql`
      ${insertSelect(apiKeys, row)} from ${users}
      where id = ${row.userId} and disabled_at is null and ${lengthOf('api_keys', row.userId)} < ${max}
      returning key_id`,
    sql`select ${max} as max from ${users} where id = ${row.userId} and disabled_at is null`,
  ]);
  if (inserted.results.length === 1) return 'made';
  return user.results[0] ?? 'no_user';
}

export async function listApiKeys(database: Database, userId: number, page: PageRequest) {
  const total = database
    .select({ total: lengthOf('api_keys', userId) })
    .from(users)
    .where(eq(users.id, userId));
  const rows = database.select().from(apiKeys).$dynamic();
  const list = { table: apiKeys, time: apiKeys.createdAt, id: apiKeys.keyId, where: eq(apiKeys.userId, userId) };
  return readPageByIndex(database, total, rows, list, page);
}

export async function deleteApiKey(database: Database, userId: number, keyId: string): Promise<boolean> {
  const mine = sql`key_id = ${keyId} and user_id = ${userId}`;
  const results = await runTogether<unknown[]>(database, endKeys(mine));
  return results.at(-1)?.results.length === 1;
}

/** Statements that delete the keys, last of all, and what they made. Guest links look at their key themselves. */
export function endKeys(where: SQL): SQL[] {
  const keys = sql`(select key_id from ${apiKeys} where ${where})`;
  return [
    sql`delete from ${claimTokens} where made_by_key in ${keys}`,
    sql`delete from ${deviceInvitations} where made_by_key in ${keys}`,
    sql`delete from ${apiKeys} where ${where} returning key_id`,
  ];
}

/** A key that an isolate remembers may make something just after its deletion: that counts for nothing. */
export function hasLivingKey(madeByKey: SQLWrapper): SQL {
  return sql`(${madeByKey} is null or exists (select 1 from ${apiKeys} where key_id = ${madeByKey}))`;
}

export async function touchApiKey(database: Database, keyId: string, usedAt: number, staleBefore: number) {
  await database
    .update(apiKeys)
    .set({ lastUsedAt: usedAt })
    .where(and(eq(apiKeys.keyId, keyId), or(isNull(apiKeys.lastUsedAt), lt(apiKeys.lastUsedAt, staleBefore))));
}
