// Lets few passwords be hashed at once: each takes 100 ms of processor time or more and 16 MiB. The others wait for their
// turn, and beyond a limit they are refused. Between two turns other requests run.
import { finishInBackground } from '../background.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { ServiceContext } from './context.ts';

const pollMs = 10;
const retryAfterSeconds = 2;

type Turn = { isKnownDevice: boolean };

const waiting: Turn[] = [];
let running = 0;

/**
 * Runs `hash` in its turn. Known devices go before strangers and wait in a queue of their own length.
 * @throws RefusedError `rate_limited` where too many wait
 */
export async function inTurn<T>(
  { config }: Pick<ServiceContext, 'config'>,
  isKnownDevice: boolean,
  hash: () => Promise<T>,
): Promise<T> {
  const { passwordHashesAtOnce, passwordHashQueue } = config.limits;
  if (waiting.filter((other) => other.isKnownDevice === isKnownDevice).length >= passwordHashQueue) {
    throw new RefusedError({ kind: 'rate_limited', limit: 'passwordHashQueue', retryAfterSeconds });
  }
  const turn = { isKnownDevice };
  const firstStranger = waiting.findIndex((other) => !other.isKnownDevice);
  waiting.splice(isKnownDevice && firstStranger >= 0 ? firstStranger : waiting.length, 0, turn);
  const work = async () => {
    try {
      // By its own timer: a promise of another request cannot be awaited.
      while (waiting[0] !== turn || running >= passwordHashesAtOnce) await scheduler.wait(pollMs);
    } finally {
      waiting.splice(waiting.indexOf(turn), 1);
    }
    running += 1;
    try {
      return await hash();
    } finally {
      running -= 1;
    }
  };
  return finishInBackground(work());
}
