// Work that outlives its request: the runtime lets it finish. Retries nothing.
import { waitUntil } from 'cloudflare:workers';
import { describeError, log } from './log.ts';

/** For work that the request does not wait for: a failure is logged by name. */
export function runInBackground(name: string, work: Promise<unknown>): void {
  waitUntil(
    work.catch((error: unknown) => {
      log('error', 'background work failed', { name, ...describeError(error) });
    }),
  );
}

/** For work that the request waits for and that has to end when the client leaves, too: it frees what others wait for. */
export function finishInBackground<T>(work: Promise<T>): Promise<T> {
  waitUntil(Promise.allSettled([work]));
  return work;
}
