// Queries on claim tokens. Only their digests are stored.
import { and, count, eq, gt, isNull, or, sql } from 'drizzle-orm';
import { runTogether, type Database } from '../client.ts';
import { claimTokens } from '../schema/devices.ts';
import { limitOf, type UserLimits } from '../accounts/user-limits.ts';

type NewToken = Pick<typeof claimTokens.$inferSelect, 'hash' | 'userId' | 'createdAt' | 'expiresAt'>;

/** False where the user has as many as he may that are valid and unused. One statement that counts and inserts. */
export async function insertClaimToken(
  database: Database,
  { hash, userId, createdAt, expiresAt }: NewToken,
  limits: UserLimits<'claimTokensPerUser'>,
): Promise<boolean> {
  const valid = database
    .select({ valid: count() })
    .from(claimTokens)
    .where(and(eq(claimTokens.userId, userId), gt(claimTokens.expiresAt, createdAt), isNull(claimTokens.usedBy)));
  const [inserted] = await runTogether<[unknown]>(database, [
    sql`
      insert into ${claimTokens} (hash, user_id, created_at, expires_at)
      select ${hash}, ${userId}, ${createdAt}, ${expiresAt} where ${valid} < ${limitOf(userId, 'claimTokensPerUser', limits)}`,
  ]);
  return inserted.meta.changes === 1;
}

export async function useClaimToken(
  database: Database,
  hash: string,
  usedBy: string,
  nowMs: number,
): Promise<number | undefined> {
  const isFree = or(isNull(claimTokens.usedBy), eq(claimTokens.usedBy, usedBy));
  const [used] = await database
    .update(claimTokens)
    .set({ usedBy })
    .where(and(eq(claimTokens.hash, hash), gt(claimTokens.expiresAt, nowMs), isFree))
    .returning({ userId: claimTokens.userId });
  return used?.userId;
}

export async function findClaimToken(database: Database, hash: string, nowMs: number) {
  return database
    .select()
    .from(claimTokens)
    .where(and(eq(claimTokens.hash, hash), gt(claimTokens.expiresAt, nowMs)))
    .get();
}
