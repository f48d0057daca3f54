// Throttles logins per account: each failure beyond the free ones makes the next attempt wait longer. Does not check
// passwords; unknown accounts are counted like known ones, so that the answers do not tell them apart.
//
// While a throttle key is closed the right password is refused too: otherwise guessing would go on behind the refusals.
// An address that has logged in to the account lately has a key of its own, so that a stranger who guesses cannot lock
// the owner out.
import { digestOf } from '../crypto/secrets.ts';
import type { Database } from '../db/client.ts';
import { countFailedLogin, findLoginAttempts, resetFailedLogins } from '../db/login-attempts.ts';
import { RefusedError } from '../domain/refusal.ts';

const failuresForgottenMs = 24 * 3_600_000;
const addressTrustedMs = 30 * 24 * 3_600_000;

/** The throttle key of this attempt, and the key that is trusted once it succeeds. */
type LoginAttempt = { throttleKey: string; trustedKey: string };

/** @throws RefusedError `rate_limited` while the throttle key is closed */
export async function beginLoginAttempt(
  database: Database,
  account: string,
  clientAddress: string,
): Promise<LoginAttempt> {
  const [accountKey, trustedKey] = await Promise.all([
    digestOf(`login ${account}`),
    digestOf(`login ${account} ${clientAddress}`),
  ]);
  const nowMs = Date.now();
  const rows = await findLoginAttempts(database, [accountKey, trustedKey]);
  const isTrusted = rows.some((row) => row.throttleKey === trustedKey && row.isTrusted && row.expiresAt > nowMs);
  const throttleKey = isTrusted ? trustedKey : accountKey;
  refuseUntil(rows.find((row) => row.throttleKey === throttleKey)?.retryAt, nowMs);
  return { throttleKey, trustedKey };
}

/**
 * Call it for a wrong password, before the caller is answered.
 * @throws RefusedError `rate_limited` where concurrent failures closed the key, so that parallel guesses gain nothing
 */
export async function countFailure(database: Database, { throttleKey }: LoginAttempt): Promise<void> {
  const nowMs = Date.now();
  refuseUntil(await countFailedLogin(database, throttleKey, nowMs, nowMs + failuresForgottenMs), nowMs);
}

/** Call it for a right password. @throws RefusedError like `countFailure` */
export async function resetFailures(database: Database, { throttleKey, trustedKey }: LoginAttempt): Promise<void> {
  const nowMs = Date.now();
  refuseUntil(await resetFailedLogins(database, throttleKey, trustedKey, nowMs, nowMs + addressTrustedMs), nowMs);
}

function refuseUntil(opensAtMs: number | undefined, nowMs: number): void {
  if (opensAtMs === undefined || opensAtMs <= nowMs) return;
  const retryAfterSeconds = Math.ceil((opensAtMs - nowMs) / 1000);
  throw new RefusedError({ kind: 'rate_limited', limit: 'login_attempts', retryAfterSeconds });
}
