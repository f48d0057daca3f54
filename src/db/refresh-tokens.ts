// Queries on refresh tokens, of which only digests are stored. A family is all tokens that descend from one login.
import { eq, sql } from 'drizzle-orm';
import { runTogether, type Database } from './client.ts';
import { refreshTokens, users } from './schema.ts';

type RefreshTokenRow = typeof refreshTokens.$inferSelect;

/** Starts a family. False when the password was changed meanwhile: no session of the old password survives the change. */
export async function insertFirstToken(
  database: Database,
  token: Omit<RefreshTokenRow, 'rotatedAt'>,
  passwordHash: string,
): Promise<boolean> {
  const [inserted] = await runTogether<[unknown, unknown]>(database, [
    sql`
      insert into ${refreshTokens} (hash, family, user_id, created_at, expires_at)
      select ${token.hash}, ${token.family}, id, ${token.createdAt}, ${token.expiresAt}
      from ${users} where id = ${token.userId} and password_hash = ${passwordHash}`,
    purgeExpired(token.createdAt),
  ]);
  return inserted.meta.changes === 1;
}

/**
 * Replaces a token that is valid, or was rotated at most `graceMs` ago, by `next`; undefined for any other token. The
 * statement that writes also decides, so that of two concurrent calls neither acts on stale state.
 */
export async function rotateToken(
  database: Database,
  hash: string,
  next: { hash: string; expiresAt: number },
  nowMs: number,
  graceMs: number,
): Promise<{ family: string; userId: number } | undefined> {
  const [{ results }] = await runTogether<[{ family: string; user_id: number }, unknown, unknown]>(database, [
    sql`
      insert into ${refreshTokens} (hash, family, user_id, created_at, expires_at)
      select ${next.hash}, family, user_id, ${nowMs}, ${next.expiresAt} from ${refreshTokens}
      where hash = ${hash} and expires_at > ${nowMs} and (rotated_at is null or rotated_at > ${nowMs - graceMs})
      returning family, user_id`,
    sql`
      update ${refreshTokens} set rotated_at = ${nowMs}
      where hash = ${hash} and expires_at > ${nowMs} and rotated_at is null`,
    purgeExpired(nowMs),
  ]);
  return results.map(({ family, user_id: userId }) => ({ family, userId }))[0];
}

export async function findRefreshToken(database: Database, hash: string): Promise<RefreshTokenRow | undefined> {
  return database.select().from(refreshTokens).where(eq(refreshTokens.hash, hash)).get();
}

export async function deleteFamily(database: Database, family: string): Promise<void> {
  await database.delete(refreshTokens).where(eq(refreshTokens.family, family));
}

/** Replaces the password hash and ends every family but one, as one transaction; false after a concurrent change. */
export async function replacePassword(
  database: Database,
  change: { userId: number; oldHash: string; newHash: string; keptFamily: string },
): Promise<boolean> {
  const [changed] = await runTogether<[unknown, unknown]>(database, [
    sql`
      update ${users} set password_hash = ${change.newHash}
      where id = ${change.userId} and password_hash = ${change.oldHash}`,
    sql`
      delete from ${refreshTokens}
      where user_id = ${change.userId} and family <> ${change.keptFamily}
        and exists (select 1 from ${users} where id = ${change.userId} and password_hash = ${change.newHash})`,
  ]);
  return changed.meta.changes === 1;
}

/** Runs with every new token, so that the table stays small between the scheduled deletions. */
function purgeExpired(nowMs: number) {
  return sql`
    delete from ${refreshTokens}
    where hash in (select hash from ${refreshTokens} where expires_at <= ${nowMs} limit 10)`;
}
