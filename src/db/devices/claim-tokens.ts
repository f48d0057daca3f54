// Queries on claim tokens. Only their digests are stored.
import { and, count, eq, gt, isNull, or, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { insertSelect } from '../insert.ts';
import { claimTokens } from '../schema/devices.ts';
import { limitOf, type UserLimits } from '../accounts/user-limits.ts';

type NewToken = Pick<typeof claimTokens.$inferSelect, 'hash' | 'userId' | 'createdAt' | 'expiresAt' | 'boundTo'>;

/** False if the user has as many valid, unused tokens as allowed. */
export async function insertClaimToken(database: Database, token: NewToken, limits: UserLimits<'claimTokensPerUser'>) {
  const { userId, createdAt } = token;
  const valid = database
    .select({ valid: count() })
    .from(claimTokens)
    .where(and(eq(claimTokens.userId, userId), gt(claimTokens.expiresAt, createdAt), isNull(claimTokens.usedBy)));
  const inserted = await database.run(sql`
    ${insertSelect(claimTokens, token)} where ${valid} < ${limitOf(userId, 'claimTokensPerUser', limits)}`);
  return inserted.meta.changes === 1;
}

export async function useClaimToken(database: Database, hash: string, usedBy: string, nowMs: number) {
  const isFree = or(isNull(claimTokens.usedBy), eq(claimTokens.usedBy, usedBy));
  const isMeant = or(isNull(claimTokens.boundTo), eq(claimTokens.boundTo, usedBy));
  const [used] = await database
    .update(claimTokens)
    .set({ usedBy })
    .where(and(eq(claimTokens.hash, hash), gt(claimTokens.expiresAt, nowMs), isFree, isMeant))
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
