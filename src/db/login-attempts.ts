// Queries that count failed logins. What a throttle key stands for and what follows from the count is decided in
// services/login-attempts.ts.
import { inArray, sql } from 'drizzle-orm';
import { runTogether, type Database } from './client.ts';
import { loginAttempts } from './schema.ts';

/** From the last free failure on, an account waits after each one, twice as long as after the one before. */
const freeLoginAttempts = 5;
const firstLoginDelayMs = 1_000;
const maxLoginDelayMs = 15 * 60_000;

export async function findLoginAttempts(database: Database, throttleKeys: string[]) {
  return database.select().from(loginAttempts).where(inArray(loginAttempts.throttleKey, throttleKeys));
}

/**
 * Counts one failure, and computes the delay in the same statement.
 * @returns when the key opens where concurrent failures closed it already: then nothing was counted; otherwise undefined
 */
export async function countFailedLogin(
  database: Database,
  throttleKey: string,
  nowMs: number,
  expiresAt: number,
): Promise<number | undefined> {
  const failures = sql`case when login_attempts.expires_at > ${nowMs} then login_attempts.failures + 1 else 1 end`;
  const doublings = sql`min(${failures} - ${freeLoginAttempts}, 20)`;
  const delay = sql`min(${maxLoginDelayMs}, ${firstLoginDelayMs} << ${doublings})`;
  const [counted, found] = await runTogether<[unknown, { retry_at: number }, unknown]>(database, [
    sql`
      insert into ${loginAttempts} (throttle_key, failures, retry_at, is_trusted, expires_at)
      values (${throttleKey}, 1, 0, 0, ${expiresAt})
      on conflict (throttle_key) do update set
        failures = ${failures},
        retry_at = case when ${failures} < ${freeLoginAttempts} then 0 else ${nowMs} + ${delay} end,
        expires_at = max(login_attempts.expires_at, ${expiresAt})
      where login_attempts.retry_at <= ${nowMs}
      returning throttle_key`,
    sql`select retry_at from ${loginAttempts} where throttle_key = ${throttleKey}`,
    sql`
      delete from ${loginAttempts}
      where throttle_key in (select throttle_key from ${loginAttempts} where expires_at <= ${nowMs} limit 10)`,
  ]);
  return counted.results.length === 0 ? found.results[0]?.retry_at : undefined;
}

/**
 * Resets the failures of `throttleKey` and trusts `trustedKey` until `trustedUntil`.
 * @returns when `throttleKey` opens where concurrent failures closed it: then nothing changed; otherwise undefined
 */
export async function resetFailedLogins(
  database: Database,
  throttleKey: string,
  trustedKey: string,
  nowMs: number,
  trustedUntil: number,
): Promise<number | undefined> {
  const [closed] = await runTogether<[{ retry_at: number }, unknown, unknown]>(database, [
    sql`select retry_at from ${loginAttempts} where throttle_key = ${throttleKey} and retry_at > ${nowMs}`,
    sql`delete from ${loginAttempts} where throttle_key = ${throttleKey} and retry_at <= ${nowMs}`,
    sql`
      insert into ${loginAttempts} (throttle_key, failures, retry_at, is_trusted, expires_at)
      select ${trustedKey}, 0, 0, 1, ${trustedUntil}
      where not exists (select 1 from ${loginAttempts} where throttle_key = ${throttleKey})
      on conflict (throttle_key) do update set failures = 0, retry_at = 0, is_trusted = 1, expires_at = ${trustedUntil}`,
  ]);
  return closed.results[0]?.retry_at;
}
