// Throttles logins by the rules of domain/login-throttle.ts: keeps their counts in D1, and knows which devices have logged in
// before. Does not check passwords; unknown accounts are counted like known ones, so that the answers do not tell them apart.
import { createSecret, digestOf } from '../../crypto/secrets.ts';
import type { Database } from '../../db/client.ts';
import {
  addFailure,
  forgetFailures,
  isLoginDevice,
  keepLoginDevice,
  readFailures,
} from '../../db/accounts/login-attempts.ts';
import { attemptOpensAt, countFailedAttempt, type ThrottleKeyName } from '../../domain/login-throttle.ts';
import { rateLimited } from '../../domain/refusal.ts';
import type { Limits } from '../../limits.ts';
import { dayMs } from '../../domain/time.ts';

const deviceTokenMs = 180 * dayMs;
export const maxDevices = 20;
const deviceTokenPattern = /^dt_[A-Za-z0-9]{43}$/;

export type LoginClient = {
  account: string;
  userId: number | undefined;
  clientAddress: string;
  shownToken: string | undefined;
};

/** @throws RefusedError rate_limited while the client has to wait */
export async function beginLoginAttempt(
  database: Database,
  limits: Limits,
  { account, userId, clientAddress, shownToken }: LoginClient,
) {
  const deviceDigest = await digestOf(shownToken ?? '');
  const isKnownDevice =
    shownToken !== undefined &&
    deviceTokenPattern.test(shownToken) &&
    (await isLoginDevice(database, deviceDigest, userId ?? 0, Date.now()));
  const ownName = isKnownDevice ? `device ${deviceDigest}` : `address ${clientAddress}`;
  const [own, free, common] = await Promise.all([
    digestOf(`login ${account} ${ownName}`),
    digestOf(`login ${account} free`),
    digestOf(`login ${account} common`),
  ]);
  const throttleKeys = { own, free, common };

  async function refuseWhileClosed() {
    const nowMs = Date.now();
    const counts = await readFailures(database, throttleKeys, nowMs);
    refuseUntil(attemptOpensAt(counts, isKnownDevice, limits), nowMs);
    return counts;
  }

  await refuseWhileClosed();
  return {
    isKnownDevice,

    /** Call it for a wrong password, before the answer. Refuses if parallel guesses came first. */
    async countFailure(): Promise<void> {
      const nowMs = Date.now();
      const count = (name: ThrottleKeyName) =>
        // The free attempts of a day are counted from the first one on; the others are forgotten a day after the last one.
        addFailure(database, throttleKeys[name], { nowMs, lifeMs: dayMs, isExtended: name !== 'free' });
      refuseUntil(await countFailedAttempt(count, isKnownDevice, limits, nowMs), nowMs);
    },

    /** Call it for a right password: forgets the client's own failures. @throws RefusedError like `countFailure` */
    async resetFailures(): Promise<void> {
      const counts = await refuseWhileClosed();
      if (counts.own.failures > 0) await forgetFailures(database, own);
    },

    /** @returns the token that this client shows at its next login */
    async trustDevice(ofUser: number): Promise<string> {
      const deviceToken = isKnownDevice ? shownToken : createSecret('dt_', 43);
      const nowMs = Date.now();
      const life = { createdAt: nowMs, shownAt: isKnownDevice ? nowMs : null, expiresAt: nowMs + deviceTokenMs };
      await keepLoginDevice(database, { hash: await digestOf(deviceToken), userId: ofUser, ...life }, maxDevices);
      return deviceToken;
    },
  };
}

function refuseUntil(opensAtMs: number, nowMs: number): void {
  if (opensAtMs <= nowMs) return;
  const retryAfterSeconds = Math.ceil((opensAtMs - nowMs) / 1000);
  throw rateLimited('login_attempts', retryAfterSeconds);
}
