// Queries on refresh tokens, known here by their digests. A family is one login: all tokens that came from it.
import { eq, sql } from 'drizzle-orm';
import { runTogether, type Database } from './client.ts';
import { refreshTokens, users } from './schema.ts';

export type RefreshTokenRow = typeof refreshTokens.$inferSelect;

/**
 * Begins a family; false when the password was changed meanwhile, so that a login with the old one cannot outlive the
 * change that was to end it.
 */
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
 * Puts `next` in the place of a token that is valid, or was rotated no longer ago than `graceMs`. Whether it may is
 * decided by the statement that does it; undefined when it may not.
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
  const [inserted] = results;
  return inserted && { family: inserted.family, userId: inserted.user_id };
}

export async function findRefreshToken(database: Database, hash: string): Promise<RefreshTokenRow | undefined> {
  const [row] = await database.select().from(refreshTokens).where(eq(refreshTokens.hash, hash)).limit(1);
  return row;
}

export async function deleteFamily(database: Database, family: string): Promise<void> {
  await database.delete(refreshTokens).where(eq(refreshTokens.family, family));
}

/** Replaces the password hash and ends every family but one, together; false when another change got there first. */
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

// Each new token takes a few expired ones with it, so that the table needs no cleaner.
function purgeExpired(nowMs: number) {
  return sql`
    delete from ${refreshTokens}
    where hash in (select hash from ${refreshTokens} where expires_at <= ${nowMs} limit 10)`;
}
