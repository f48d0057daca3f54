// Deletes what has expired, table by table, by the index on its expiry. Nothing that is still valid.
import { lt } from 'drizzle-orm';
import type { Database } from './client.ts';
import { brokerOutbox, loginAttempts, refreshTokens } from './schema.ts';

/** Delivered wishes are kept for a while only to know a late, older one for what it is. */
const deliveredWishLifeMs = 60 * 60_000;

export async function deleteExpiredRows(database: Database, nowMs: number): Promise<void> {
  await database.batch([
    database.delete(refreshTokens).where(lt(refreshTokens.expiresAt, nowMs)),
    database.delete(loginAttempts).where(lt(loginAttempts.expiresAt, nowMs)),
    database.delete(brokerOutbox).where(lt(brokerOutbox.deliveredAt, nowMs - deliveredWishLifeMs)),
  ]);
}
