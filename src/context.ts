// What a use case is given beside its input. Services read no request and no global.
import type { Config } from './config.ts';
import { openDatabase, type Database } from './db/client.ts';

export type ServiceContext = {
  env: Env;
  config: Config;
  /** For writes, and for reads that decide: login, key check, activation. */
  primary: () => Database;
  /** For lists, which may lag behind. */
  replica: () => Database;
  /** Of the request, for security events. */
  clientAddress: string | undefined;
};

export function createContext(env: Env, config: Config, clientAddress?: string): ServiceContext {
  return {
    env,
    config,
    primary: () => openDatabase(env.DB, 'first-primary'),
    replica: () => openDatabase(env.DB, 'first-unconstrained'),
    clientAddress,
  };
}
