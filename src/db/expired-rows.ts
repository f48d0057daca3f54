// Deletes what has expired, table by table, by the index on its expiry. Nothing that is still valid.
import { lt } from 'drizzle-orm';
import type { Database } from './client.ts';
import { loginAttempts, refreshTokens } from './schema.ts';

export async function deleteExpiredRows(database: Database, nowMs: number): Promise<void> {
  await database.batch([
    database.delete(refreshTokens).where(lt(refreshTokens.expiresAt, nowMs)),
    database.delete(loginAttempts).where(lt(loginAttempts.expiresAt, nowMs)),
  ]);
}
