// Hashing a password takes 100 ms of processor time or more and 16 MiB, and nothing else runs in the isolate meanwhile. One is
// hashed at a time, with a pause after it in which other requests run; those that wait for their turn are limited.
import type { ServiceContext } from './context.ts';
import { Turns } from './turns.ts';

const turns = new Turns('passwordHashQueue', 1);

/**
 * Runs `hash` in its turn. Known devices go before strangers and wait in a queue of their own length.
 * @throws RefusedError `rate_limited` where too many wait
 */
export function inTurn<T>(
  { config }: Pick<ServiceContext, 'config'>,
  isKnownDevice: boolean,
  hash: () => Promise<T>,
): Promise<T> {
  const { passwordHashPauseMs: pauseMs, passwordHashQueue: maxWaiting } = config.limits;
  return turns.run({ isFirst: isKnownDevice, maxWaiting, pauseMs }, hash);
}
