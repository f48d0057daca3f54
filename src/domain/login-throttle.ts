// How often a password may be tried. Failed attempts are counted by throttle key; the count decides when the next attempt
// may come. Before that the right password is refused, too: otherwise guessing would go on behind the refusals.
//
// - A device that logged in before and shows its token has a key of its own. Nothing that others do makes it wait.
// - Anybody else has the key of the account and the client address. Its first failures are free, then each doubles the wait.
// - Free failures of all addresses are counted together. While there are not too many in a day, an address that has not
//   failed yet waits for nobody: a stranger cannot keep the owner out of a new address.
// - All other attempts at an account share one key with a short wait. It bounds what many addresses can guess together.

import { minuteMs } from './time.ts';

export type FailureCount = { failures: number; lastFailedAtMs: number };
export type ThrottleKeyName = 'own' | 'free' | 'common';

export type LoginLimits = { loginFreeAttemptsPerDay: number };

const freeAttempts = 5;
const firstDelayMs = 1_000;
/** About a hundred guesses a day from one address. */
const maxDelayMs = 15 * minuteMs;
/** Bounds all addresses together at 17 280 guesses a day beyond the free ones. */
const commonDelayMs = 5_000;

export function attemptOpensAt(
  counts: Record<ThrottleKeyName, FailureCount>,
  isKnownDevice: boolean,
  limits: LoginLimits,
): number {
  const ownOpensAtMs = ownKeyOpensAt(counts.own);
  if (isKnownDevice || (isFree(counts.own) && hasFreeLeft(counts.free, limits))) return ownOpensAtMs;
  return Math.max(ownOpensAtMs, commonKeyOpensAt(counts.common));
}

/** @returns from when the attempt was allowed. @param count adds a failure and answers the count before it, in one step */
export async function countFailedAttempt(
  count: (name: ThrottleKeyName) => Promise<FailureCount>,
  isKnownDevice: boolean,
  limits: LoginLimits,
  nowMs: number,
): Promise<number> {
  const own = await count('own');
  const ownOpensAtMs = ownKeyOpensAt(own);
  if (isKnownDevice || ownOpensAtMs > nowMs) return ownOpensAtMs;
  if (isFree(own) && hasFreeLeft(await count('free'), limits)) return ownOpensAtMs;
  return commonKeyOpensAt(await count('common'));
}

function isFree({ failures }: FailureCount): boolean {
  return failures < freeAttempts;
}

function hasFreeLeft({ failures }: FailureCount, { loginFreeAttemptsPerDay }: LoginLimits): boolean {
  return failures < loginFreeAttemptsPerDay;
}

function ownKeyOpensAt(own: FailureCount): number {
  if (isFree(own)) return 0;
  return own.lastFailedAtMs + Math.min(firstDelayMs * 2 ** (own.failures - freeAttempts), maxDelayMs);
}

function commonKeyOpensAt({ failures, lastFailedAtMs }: FailureCount): number {
  return failures === 0 ? 0 : lastFailedAtMs + commonDelayMs;
}
