// Work that outlives its request: the runtime lets it finish. Retries nothing.
import { waitUntil } from 'cloudflare:workers';
import { describeError, log } from './log.ts';

export function runInBackground(name: string, work: Promise<unknown>): void {
  waitUntil(
    work.catch((error: unknown) => {
      log('error', 'background work failed', { name, ...describeError(error) });
    }),
  );
}

export function finishInBackground<T>(work: Promise<T>): Promise<T> {
  waitUntil(Promise.allSettled([work]));
  return work;
}
