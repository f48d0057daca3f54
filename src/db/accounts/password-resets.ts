// Queries on the tokens of password resets, of which only digests are stored. Using one sets the password and ends every
// session and API key.
import { and, eq, gt, sql } from 'drizzle-orm';
import { runTogether, type Database } from '../client.ts';
import { insertSelect } from '../insert.ts';
import { endedAccess, type EndedAccess } from './refresh-tokens.ts';
import { apiKeys, loginDevices, passwordResets, refreshTokens, users } from '../schema/accounts.ts';

type PasswordReset = typeof passwordResets.$inferSelect;

/** False if the user has `max` since `sinceMs`, or is disabled. */
export async function insertPasswordReset(database: Database, reset: PasswordReset, max: number, sinceMs: number) {
  const { userId } = reset;
  const recent = sql`
    (select count(*) from ${passwordResets} where user_id = ${userId} and created_at > ${sinceMs})`;
  const inserted = await database.run(sql`
    ${insertSelect(passwordResets, reset)} from ${users}
    where id = ${userId} and disabled_at is null and ${recent} < ${max}`);
  return inserted.meta.changes === 1;
}

export async function findPasswordReset(database: Database, hash: string, nowMs: number) {
  return database
    .select()
    .from(passwordResets)
    .where(and(eq(passwordResets.hash, hash), gt(passwordResets.expiresAt, nowMs)))
    .get();
}

/** Sets the password and ends all sessions, API keys, login devices and tokens. Undefined if the token was used meanwhile. */
export async function usePasswordReset(
  database: Database,
  { hash, userId }: PasswordReset,
  passwordHash: string,
): Promise<EndedAccess | undefined> {
  const isUnused = sql`exists (select 1 from ${passwordResets} where hash = ${hash})`;
  const [changed, sessions, keys] = await runTogether<[unknown, unknown, { key_id: string }, unknown, unknown]>(
    database,
    [
      sql`update ${users} set password_hash = ${passwordHash} where id = ${userId} and ${isUnused}`,
      sql`delete from ${refreshTokens} where user_id = ${userId} and ${isUnused} returning hash`,
      sql`delete from ${apiKeys} where user_id = ${userId} and ${isUnused} returning key_id`,
      sql`delete from ${loginDevices} where user_id = ${userId} and ${isUnused}`,
      sql`delete from ${passwordResets} where user_id = ${userId} and ${isUnused}`,
    ],
  );
  return changed.meta.changes === 1 ? endedAccess(sessions.results, keys.results) : undefined;
}
