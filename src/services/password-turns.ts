// Hashing a password takes 100 ms of processor time or more and 16 MiB, and nothing else runs in the isolate meanwhile. One is
// hashed at a time, with a pause after it in which other requests run; those that wait for their turn are limited.
import { finishInBackground, runInBackground } from '../background.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { ServiceContext } from './context.ts';

const pollMs = 20;
const retryAfterSeconds = 2;

type Turn = { isKnownDevice: boolean };

const waiting: Turn[] = [];
let isTaken = false;

/**
 * Runs `hash` in its turn. Known devices go before strangers and wait in a queue of their own length.
 * @throws RefusedError `rate_limited` where too many wait
 */
export async function inTurn<T>(
  { config }: Pick<ServiceContext, 'config'>,
  isKnownDevice: boolean,
  hash: () => Promise<T>,
): Promise<T> {
  const { passwordHashPauseMs, passwordHashQueue } = config.limits;
  if (waiting.filter((other) => other.isKnownDevice === isKnownDevice).length >= passwordHashQueue) {
    throw new RefusedError({ kind: 'rate_limited', limit: 'passwordHashQueue', retryAfterSeconds });
  }
  const turn = { isKnownDevice };
  const firstStranger = waiting.findIndex((other) => !other.isKnownDevice);
  waiting.splice(isKnownDevice && firstStranger >= 0 ? firstStranger : waiting.length, 0, turn);
  const work = async () => {
    try {
      // By its own timer: a promise of another request cannot be awaited.
      while (isTaken || waiting[0] !== turn) await scheduler.wait(pollMs);
    } finally {
      waiting.splice(waiting.indexOf(turn), 1);
    }
    isTaken = true;
    try {
      return await hash();
    } finally {
      runInBackground('pause between passwords', endTurn(passwordHashPauseMs));
    }
  };
  // To its end, also when the client leaves: otherwise nobody would have a turn after it.
  return finishInBackground(work());
}

async function endTurn(pauseMs: number): Promise<void> {
  if (pauseMs > 0) await scheduler.wait(pauseMs);
  isTaken = false;
}
