// What a route hands to a service: the part of the Hono context that is not the request.
import type { Config } from '../config.ts';
import { createContext, type ServiceContext } from '../services/context.ts';

export function contextOf(c: { env: Env; var: { config: Config } }): ServiceContext {
  return createContext(c.env, c.var.config);
}
