// Queries on claim tokens. Only their digests are stored.
import { and, count, eq, gt, isNull, or, sql } from 'drizzle-orm';
import { findRow, insertSelect, type Database } from '../client.ts';
import { claimTokens } from '../schema/devices.ts';
import { hasLivingKey } from '../accounts/api-keys.ts';
import { limitOf, type UserLimits } from '../accounts/users.ts';

type TokenRow = typeof claimTokens.$inferSelect;
type NewToken = Partial<TokenRow> & Pick<TokenRow, 'hash' | 'userId' | 'createdAt' | 'expiresAt'>;

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

export async function useClaimToken(
  database: Database,
  hash: string,
  { device, productKey }: { device: string; productKey: string },
  nowMs: number,
) {
  const { usedBy, boundTo, userId, hasShownCode } = claimTokens;
  const isForDevice = [usedBy, boundTo].map((column) => or(isNull(column), eq(column, device)));
  const isForProduct = or(isNull(claimTokens.productKey), eq(claimTokens.productKey, productKey));
  const isStanding = and(gt(claimTokens.expiresAt, nowMs), hasLivingKey(claimTokens.madeByKey));
  const [used] = await database
    .update(claimTokens)
    .set({ usedBy: device })
    .where(and(eq(claimTokens.hash, hash), isStanding, ...isForDevice, isForProduct))
    .returning({ userId, hasShownCode });
  return used;
}

export async function findClaimToken(database: Database, hash: string, nowMs: number) {
  return findRow(database, claimTokens, and(eq(claimTokens.hash, hash), gt(claimTokens.expiresAt, nowMs)));
}
