// What costs the database something for somebody who has not shown yet who he is: an API key that is not known here, a
// product key or serial number that is not there yet. A few at a time with a pause after each, so that a flood of it does not
// slow known users.
import type { ServiceContext } from '../context.ts';
import { Turns } from './turns.ts';

const atOnce = 2;
const turns = new Turns('strangerQueue', atOnce);

/** At once where rate limits are relaxed. @throws RefusedError `rate_limited` where too many wait */
export function inStrangersTurn<T>({ config }: Pick<ServiceContext, 'config'>, work: () => Promise<T>): Promise<T> {
  if (config.rateLimits === 'relaxed') return work();
  const { strangerQueue: maxWaiting, strangerPauseMs } = config.limits;
  return turns.run({ maxWaiting, pauseMs: () => strangerPauseMs }, work);
}
