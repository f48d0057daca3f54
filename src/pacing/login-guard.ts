// Keeps guesses of messaging passwords away from devices' objects, for every way in. A password with a right code goes to
// the object. One without is a guess, or was issued before passwords had codes or under a secret that was removed: of
// these, only so many that turn out wrong reach an object. Memory only, by isolate.
import type { Config } from '../config.ts';
import { isCertified } from '../crypto/messaging-password.ts';
import { digestOf } from '../crypto/secrets.ts';
import { unspent, giveBack, roomAtMs, spend, type Spent } from '../domain/token-bucket.ts';
import { rememberNewest } from '../domain/newest.ts';
import { credentialRefused, refuse, type Outcome, type Refusal } from '../domain/refusal.ts';
import { messagingName, type DeviceIdentity } from '../domain/topics.ts';
import type { Limits } from '../limits.ts';

/** `network` is the client's address, an IPv6 one by its /64; undefined where a broker does not tell it. */
export type GuardedLogin = { device: DeviceIdentity; password: string; network: string | undefined };

/** A device repeats a refused login for as long as it takes. One without a record may get one, and this very password. */
const rememberRefusalMs = { wrong: 600_000, notFound: 10_000 };

// By name and digest: nobody else's guesses change what a device's own password is answered. Bounded by `rememberedDeviceNames`.
const right = new Map<string, true>();
const refused = new Map<string, { refusal: Refusal; untilMs: number }>();
const spentByNetwork = new Map<string, Spent>();
let spentByAll = unspent;

/**
 * Asks the device's object where the password may be right.
 * @param ask with the digest of the password
 * @returns what the object answers, or `credential_refused`, `not_found` or `rate_limited` without asking it
 */
export async function guardLogin<T>(
  { limits, messagingSecrets }: Config,
  { device, password, network }: GuardedLogin,
  ask: (passwordDigest: string) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  const digest = await digestOf(password);
  if (await isCertified(messagingSecrets, device, password)) return ask(digest);
  if (limits.oldPasswordFailuresPerMinute === 0) return refuse(credentialRefused('messaging_password', 'wrong'));
  const login = `${messagingName(device)} ${digest}`;
  if (right.has(login)) return ask(digest);
  const nowMs = Date.now();
  const known = refused.get(login);
  if (known !== undefined && known.untilMs > nowMs) return refuse(known.refusal);
  // Before the answer is known: guesses may come all at once.
  const refusal = spendFailure(limits, network, nowMs);
  if (refusal !== undefined) return refuse(refusal);
  let wasWrong = false;
  try {
    const outcome = await ask(digest);
    if (outcome.ok) {
      rememberNewest(right, login, true, limits.rememberedDeviceNames);
    } else {
      wasWrong = isOfGuess(outcome.refusal);
      const forMs = rememberForMs(outcome.refusal);
      const entry = { refusal: outcome.refusal, untilMs: nowMs + forMs };
      if (forMs > 0) rememberNewest(refused, login, entry, limits.rememberedDeviceNames);
    }
    return outcome;
  } finally {
    if (!wasWrong) returnFailure(limits, network);
  }
}

/** Undefined where there is room for one more. */
function spendFailure(limits: Limits, network: string | undefined, nowMs: number): Refusal | undefined {
  const { oldPasswordFailuresPerMinute: max, oldPasswordFailuresPerAddressMinute: maxOfNetwork } = limits;
  const spentBefore = spentByNetwork.get(network ?? '') ?? unspent;
  const byNetwork = network === undefined ? unspent : spend(spentBefore, maxOfNetwork, nowMs);
  if (byNetwork === undefined) {
    return rateLimited('oldPasswordFailuresPerAddressMinute', roomAtMs(spentBefore, maxOfNetwork, nowMs) - nowMs);
  }
  const byAll = spend(spentByAll, max, nowMs);
  if (byAll === undefined) {
    return rateLimited('oldPasswordFailuresPerMinute', roomAtMs(spentByAll, max, nowMs) - nowMs);
  }
  spentByAll = byAll;
  if (network !== undefined) rememberNewest(spentByNetwork, network, byNetwork, limits.rememberedDeviceNames);
  return undefined;
}

function returnFailure(limits: Limits, network: string | undefined): void {
  spentByAll = giveBack(spentByAll, limits.oldPasswordFailuresPerMinute);
  const byNetwork = network === undefined ? undefined : spentByNetwork.get(network);
  if (network === undefined || byNetwork === undefined) return;
  spentByNetwork.set(network, giveBack(byNetwork, limits.oldPasswordFailuresPerAddressMinute));
}

/** Otherwise the password is one that the device was given, or nothing is known. */
function isOfGuess(refusal: Refusal): boolean {
  if (refusal.kind === 'credential_refused') return refusal.problem === 'wrong';
  return refusal.kind === 'not_found' || refusal.kind === 'wrong_client_id';
}

function rememberForMs(refusal: Refusal): number {
  if (refusal.kind === 'not_found') return rememberRefusalMs.notFound;
  const isWrong = refusal.kind === 'credential_refused' && refusal.problem === 'wrong';
  return isWrong ? rememberRefusalMs.wrong : 0;
}

function rateLimited(limit: string, waitMs: number): Refusal {
  return { kind: 'rate_limited', limit, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) };
}
