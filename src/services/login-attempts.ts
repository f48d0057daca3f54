// Counts wrong passwords for one account exactly, and makes the next attempt wait longer and longer. Whether a password
// is right is found out elsewhere; unknown accounts are counted like known ones, so that nothing tells them apart.
//
// While a lane is closed the right password is refused too: otherwise guessing would go on behind the answers. So that
// a stranger who guesses cannot keep the owner out, an address that has logged in to the account lately has a lane of
// its own.
import { digestOf } from '../crypto/secrets.ts';
import type { Database } from '../db/client.ts';
import { findLanes, insertFailure, resetLane } from '../db/login-attempts.ts';
import { RefusedError } from '../domain/refusal.ts';

const failuresForgottenMs = 24 * 3_600_000;
const addressTrustedMs = 30 * 24 * 3_600_000;

/** The lane of this attempt, and the one that a success makes the caller's own. */
export type LoginLane = { lane: string; trustedLane: string };

/** @throws RefusedError too_many_requests while the lane is closed */
export async function enterLane(database: Database, account: string, clientAddress: string): Promise<LoginLane> {
  const [sharedLane, trustedLane] = await Promise.all([
    digestOf(`login ${account}`),
    digestOf(`login ${account} ${clientAddress}`),
  ]);
  const nowMs = Date.now();
  const rows = await findLanes(database, [sharedLane, trustedLane]);
  const isTrusted = rows.some((row) => row.lane === trustedLane && row.isTrusted && row.expiresAt > nowMs);
  const lane = isTrusted ? trustedLane : sharedLane;
  refuseUntil(rows.find((row) => row.lane === lane)?.retryAt ?? 0, nowMs);
  return { lane, trustedLane };
}

/**
 * To be called for a wrong password, before the caller learns that it was wrong.
 * @throws RefusedError too_many_requests when failures of the same moment closed the lane: a hundred guesses sent at
 * once are answered like a hundred in a row
 */
export async function countFailure(database: Database, { lane }: LoginLane): Promise<void> {
  const nowMs = Date.now();
  const refusal = await insertFailure(database, lane, nowMs, nowMs + failuresForgottenMs);
  refuseUntil(refusal?.closedUntil ?? 0, nowMs);
}

/** To be called for a right password; refuses like `countFailure`, for the same reason. */
export async function forgetFailures(database: Database, { lane, trustedLane }: LoginLane): Promise<void> {
  const nowMs = Date.now();
  const refusal = await resetLane(database, lane, trustedLane, nowMs, nowMs + addressTrustedMs);
  refuseUntil(refusal?.closedUntil ?? 0, nowMs);
}

function refuseUntil(opensAtMs: number, nowMs: number): void {
  if (opensAtMs <= nowMs) return;
  throw new RefusedError({
    kind: 'rate_limited',
    limit: 'login_attempts',
    retryAfterSeconds: Math.ceil((opensAtMs - nowMs) / 1000),
  });
}
