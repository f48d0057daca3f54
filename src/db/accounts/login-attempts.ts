// Queries that count failed logins. What a throttle key stands for and what follows from its count is decided in
// services/accounts/login-attempts.ts and domain/login-throttle.ts.
import { and, eq, gt, inArray, sql } from 'drizzle-orm';
import type { FailureCount, ThrottleKeyName } from '../../domain/login-throttle.ts';
import { runTogether, type Database } from '../client.ts';
import { loginAttempts } from '../schema/accounts.ts';

const emptyCount: FailureCount = { failures: 0, lastFailedAtMs: 0 };

export async function readFailures(
  database: Database,
  throttleKeys: Record<ThrottleKeyName, string>,
  nowMs: number,
): Promise<Record<ThrottleKeyName, FailureCount>> {
  const { throttleKey, failures, lastFailedAt: lastFailedAtMs, expiresAt } = loginAttempts;
  const rows = await database
    .select({ throttleKey, failures, lastFailedAtMs })
    .from(loginAttempts)
    .where(and(inArray(throttleKey, Object.values(throttleKeys)), gt(expiresAt, nowMs)));
  const countOf = (key: string) => rows.find((row) => row.throttleKey === key) ?? emptyCount;
  return { own: countOf(throttleKeys.own), free: countOf(throttleKeys.free), common: countOf(throttleKeys.common) };
}

/** Adds one failure; answers what was counted before, read in the same transaction. `isExtended`: life begins anew. */
export async function addFailure(
  database: Database,
  throttleKey: string,
  { nowMs, lifeMs, isExtended }: { nowMs: number; lifeMs: number; isExtended: boolean },
): Promise<FailureCount> {
  const expiresAt = nowMs + lifeMs;
  const isLive = sql`login_attempts.expires_at > ${nowMs}`;
  const [{ results }] = await runTogether<[FailureCount, unknown, unknown]>(database, [
    sql`
      select failures, last_failed_at as lastFailedAtMs from ${loginAttempts}
      where throttle_key = ${throttleKey} and expires_at > ${nowMs}`,
    sql`
      insert into ${loginAttempts} (throttle_key, failures, last_failed_at, expires_at)
      values (${throttleKey}, 1, ${nowMs}, ${expiresAt})
      on conflict (throttle_key) do update set
        failures = case when ${isLive} then login_attempts.failures + 1 else 1 end,
        last_failed_at = ${nowMs},
        expires_at = ${isExtended ? expiresAt : sql`case when ${isLive} then login_attempts.expires_at else ${expiresAt} end`}`,
    sql`
      delete from ${loginAttempts}
      where throttle_key in (select throttle_key from ${loginAttempts} where expires_at <= ${nowMs} limit 10)`,
  ]);
  return results[0] ?? emptyCount;
}

export async function forgetFailures(database: Database, throttleKey: string): Promise<void> {
  await database.delete(loginAttempts).where(eq(loginAttempts.throttleKey, throttleKey));
}
