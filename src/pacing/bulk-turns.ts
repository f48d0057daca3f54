// Requests that each change many devices or serial numbers: one at a time in an isolate, step by step with a pause after each,
// so that nobody else waits long for the database or for objects. One user cannot fill the queue. Knows nothing of the work.
import type { ServiceContext } from '../context.ts';
import { Turns } from './turns.ts';

type Configured = Pick<ServiceContext, 'config'>;

const turns = new Turns('bulkQueue', 1);

/** At once where rate limits are relaxed. @throws RefusedError `rate_limited` where too many wait, in all or of this user */
export function inBulkTurn<T>({ config }: Configured, userId: number, work: () => Promise<T>): Promise<T> {
  if (config.rateLimits === 'relaxed') return work();
  const { bulkQueue: maxWaiting, bulkQueuePerUser: max, bulkPauseMs } = config.limits;
  const ofOne = { key: userId, max, limit: 'bulkQueuePerUser' };
  return turns.run({ maxWaiting, ofOne, pauseMs: () => bulkPauseMs }, work);
}

/** Between two steps of such a request. */
export async function pauseBetweenSteps({ config: { limits, rateLimits } }: Configured): Promise<void> {
  if (rateLimits === 'production') await scheduler.wait(limits.bulkPauseMs);
}
