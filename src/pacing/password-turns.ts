// Hashing a password takes 100 ms of processor time or more and 8 MiB, in steps during which nothing else runs in the isolate.
// One is hashed at a time, with pauses between its steps and after it in which other requests run, and beyond a burst only so
// many a minute: a flood of logins takes a small share of the time. Those that wait for their turn are limited.
import { fullBucket, takeInAdvance, waitForTokenMs, type Bucket } from '../domain/token-bucket.ts';
import type { Pause } from '../crypto/password.ts';
import type { ServiceContext } from '../context.ts';
import { rememberNewest } from '../domain/newest.ts';
import { Turns } from './turns.ts';

const turns = new Turns('passwordHashQueue', 1);
/** Of the isolate. */
let budget: Bucket | undefined;
/** Who gave the right password here, by a digest of name and address. */
const familiarClients = new Map<string, true>();

/**
 * Runs `hash` in its turn. Known clients go before strangers and wait in a queue of their own length.
 * @throws RefusedError `rate_limited` where too many wait
 */
export function inTurn<T>(
  { config }: Pick<ServiceContext, 'config'>,
  isKnown: boolean,
  hash: (pause: Pause) => Promise<T>,
): Promise<T> {
  const pauseMs = () => pauseAfterHashMs(config, Date.now());
  const stepPauseMs = config.rateLimits === 'relaxed' ? 0 : config.limits.passwordStepPauseMs;
  return turns.run({ isFirst: isKnown, maxWaiting: config.limits.passwordHashQueue, pauseMs }, () =>
    hash(() => scheduler.wait(stepPauseMs)),
  );
}

/** Before anything is read for a stranger. @throws RefusedError `rate_limited` where too many of them wait */
export function refuseStrangerWhereFull({ config }: Pick<ServiceContext, 'config'>): void {
  turns.refuseWhereFull({ isFirst: false, maxWaiting: config.limits.passwordHashQueue });
}

export function isFamiliarClient(clientDigest: string): boolean {
  return familiarClients.has(clientDigest);
}

export function rememberClient({ config }: Pick<ServiceContext, 'config'>, clientDigest: string): void {
  rememberNewest(familiarClients, clientDigest, true, config.limits.rememberedLoginAddresses);
}

function pauseAfterHashMs({ limits, rateLimits }: ServiceContext['config'], nowMs: number): number {
  if (rateLimits === 'relaxed') return limits.passwordHashPauseMs;
  const rate = { burst: limits.passwordHashBurst, perSecond: limits.passwordHashesPerMinute / 60 };
  budget ??= fullBucket(rate, nowMs);
  takeInAdvance(budget, rate, Infinity, nowMs);
  return Math.max(limits.passwordHashPauseMs, waitForTokenMs(budget, rate, nowMs));
}
