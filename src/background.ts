// Work that outlives its request: the runtime lets it finish. Retries nothing.
import { waitUntil } from 'cloudflare:workers';
import { describeError, log } from './log.ts';

/** The request does not wait for this work. A failure is logged under `name`. */
export function runInBackground(name: string, work: Promise<unknown>): void {
  waitUntil(
    work.catch((error: unknown) => {
      log('error', 'background work failed', { name, ...describeError(error) });
    }),
  );
}

/** The request waits for this work, which goes on if the client leaves: other requests may wait for it. */
export function finishInBackground<T>(work: Promise<T>): Promise<T> {
  waitUntil(Promise.allSettled([work]));
  return work;
}
