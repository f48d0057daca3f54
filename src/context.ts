// What a use case is given beside its input, and work that outlives its request. Services read no request and no global.
import type { Config } from './config.ts';
import { openDatabase, type Database } from './db/client.ts';
import { waitUntil } from 'cloudflare:workers';
import { describeError, log } from './log.ts';

export type ServiceContext = {
  env: Env;
  config: Config;
  /** For writes, and for reads that decide: login, key check, activation. */
  primary: () => Database;
  /** For lists, which may lag behind. */
  replica: () => Database;
  /** Of the request, an IPv6 address by its /64; `unknown` without a request. */
  clientAddress: string;
  /** Of the request: addresses that are handed out begin with its origin. */
  requestUrl: string;
};

export function createContext(env: Env, config: Config, clientAddress = 'unknown', requestUrl = ''): ServiceContext {
  return {
    env,
    config,
    primary: () => openDatabase(env.DB),
    replica: () => openDatabase(env.DB, 'first-unconstrained'),
    clientAddress,
    requestUrl,
  };
}

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
