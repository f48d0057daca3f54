// What a use case is given beside its input. Services read no request and no global.
import type { Config } from './config.ts';
import { openDatabase, type Database } from './db/client.ts';

export type ServiceContext = {
  env: Env;
  config: Config;
  primary: () => Database;
  replica: () => Database;
};

export function createContext(env: Env, config: Config): ServiceContext {
  return {
    env,
    config,
    primary: () => openDatabase(env.DB, 'first-primary'),
    replica: () => openDatabase(env.DB, 'first-unconstrained'),
  };
}
