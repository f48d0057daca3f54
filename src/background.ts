// Work that a request does not wait for: the runtime lets it finish, a failure is logged by name. Retries nothing.
import { waitUntil } from 'cloudflare:workers';
import { describeError, log } from './log.ts';

export function runInBackground(name: string, work: Promise<unknown>): void {
  waitUntil(
    work.catch((error: unknown) => {
      log('error', 'background work failed', { name, ...describeError(error) });
    }),
  );
}
