// Queries that count failed logins, and on the devices on which users have logged in. What a throttle key stands for and what
// follows from its count is decided in services/accounts/login-attempts.ts and domain/login-throttle.ts.
import { and, eq, gt, inArray, sql } from 'drizzle-orm';
import type { FailureCount, ThrottleKeyName } from '../../domain/login-throttle.ts';
import { runTogether, type Database, insertSelect } from '../client.ts';
import { purge } from '../expired-rows.ts';
import { loginAttempts, loginDevices } from '../schema/accounts.ts';

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
    purge(loginAttempts, nowMs),
  ]);
  return results[0] ?? emptyCount;
}

export async function forgetFailures(database: Database, throttleKey: string): Promise<void> {
  await database.delete(loginAttempts).where(eq(loginAttempts.throttleKey, throttleKey));
}

type LoginDeviceRow = typeof loginDevices.$inferSelect;

export async function isLoginDevice(database: Database, hash: string, userId: number, nowMs: number): Promise<boolean> {
  const { hash: storedHash, userId: ofUser, expiresAt } = loginDevices;
  const isIt = and(eq(storedHash, hash), eq(ofUser, userId), gt(expiresAt, nowMs));
  return (await database.select({ hash: storedHash }).from(loginDevices).where(isIt).get()) !== undefined;
}

/** Of more than `maxDevices`, those go first that were never shown again: a client that keeps no token gets one a login. */
export async function keepLoginDevice(database: Database, device: LoginDeviceRow, maxDevices: number): Promise<void> {
  await runTogether<[unknown, unknown, unknown]>(database, [
    sql`
      ${insertSelect(loginDevices, device)} where true
      on conflict (hash) do update set shown_at = excluded.shown_at, expires_at = excluded.expires_at`,
    sql`
      delete from ${loginDevices} where hash in (
        select hash from ${loginDevices} where user_id = ${device.userId} and hash <> ${device.hash}
        order by shown_at desc, created_at desc limit -1 offset ${maxDevices - 1})`,
    purge(loginDevices, device.createdAt),
  ]);
}
