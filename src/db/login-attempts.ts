// Queries that count wrong passwords. What a lane is and what follows from the count is decided in
// services/login-attempts.ts.
import { inArray, sql } from 'drizzle-orm';
import { firstLoginDelayMs, freeLoginAttempts, maxLoginDelayMs } from '../domain/login-delay.ts';
import { runTogether, type Database } from './client.ts';
import { loginAttempts } from './schema.ts';

export type LoginAttemptsRow = typeof loginAttempts.$inferSelect;

export function findLanes(database: Database, lanes: string[]): Promise<LoginAttemptsRow[]> {
  return database.select().from(loginAttempts).where(inArray(loginAttempts.lane, lanes));
}

/**
 * Counts one failure, unless the lane is closed by those of the same moment: then the time it opens at. The delay is
 * `loginDelayMs` in SQL, because the count and its consequence have to be one statement.
 */
export async function insertFailure(
  database: Database,
  lane: string,
  nowMs: number,
  expiresAt: number,
): Promise<{ closedUntil: number } | undefined> {
  const failures = sql`case when login_attempts.expires_at > ${nowMs} then login_attempts.failures + 1 else 1 end`;
  const doublings = sql`min(${failures} - ${freeLoginAttempts}, 20)`;
  const delay = sql`min(${maxLoginDelayMs}, ${firstLoginDelayMs} << ${doublings})`;
  const [counted, found] = await runTogether<[{ lane: string }, { retry_at: number }, unknown]>(database, [
    sql`
      insert into ${loginAttempts} (lane, failures, retry_at, is_trusted, expires_at)
      values (${lane}, 1, 0, 0, ${expiresAt})
      on conflict (lane) do update set
        failures = ${failures},
        retry_at = case when ${failures} < ${freeLoginAttempts} then 0 else ${nowMs} + ${delay} end,
        expires_at = max(login_attempts.expires_at, ${expiresAt})
      where login_attempts.retry_at <= ${nowMs}
      returning lane`,
    sql`select retry_at from ${loginAttempts} where lane = ${lane}`,
    sql`
      delete from ${loginAttempts}
      where lane in (select lane from ${loginAttempts} where expires_at <= ${nowMs} limit 10)`,
  ]);
  const [row] = found.results;
  return counted.results.length === 0 && row !== undefined ? { closedUntil: row.retry_at } : undefined;
}

/**
 * Forgets the failures of a lane and trusts another lane until `trustedUntil`, unless failures of the same moment
 * closed the first: then the time it opens at, and nothing is changed.
 */
export async function resetLane(
  database: Database,
  lane: string,
  trustedLane: string,
  nowMs: number,
  trustedUntil: number,
): Promise<{ closedUntil: number } | undefined> {
  const [closed] = await runTogether<[{ retry_at: number }, unknown, unknown]>(database, [
    sql`select retry_at from ${loginAttempts} where lane = ${lane} and retry_at > ${nowMs}`,
    sql`delete from ${loginAttempts} where lane = ${lane} and retry_at <= ${nowMs}`,
    sql`
      insert into ${loginAttempts} (lane, failures, retry_at, is_trusted, expires_at)
      select ${trustedLane}, 0, 0, 1, ${trustedUntil}
      where not exists (select 1 from ${loginAttempts} where lane = ${lane})
      on conflict (lane) do update set failures = 0, retry_at = 0, is_trusted = 1, expires_at = ${trustedUntil}`,
  ]);
  const [row] = closed.results;
  return row && { closedUntil: row.retry_at };
}
