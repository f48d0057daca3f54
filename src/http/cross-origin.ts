// Browser applications of the configured origins may call the interface (field note 30). Never with credentials:
// tokens travel in headers, cookies are not used.
import { cors } from 'hono/cors';
import { createMiddleware } from 'hono/factory';
import type { AppEnv } from './app-env.ts';

const exposeHeaders = ['X-Request-Id', 'Retry-After'];
const allowMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const maxAge = 86_400;

const byOrigin = cors({
  origin: (origin, c) => ((c.var as AppEnv['Variables']).context.config.corsOrigins.includes(origin) ? origin : null),
  allowMethods,
  exposeHeaders,
  maxAge,
});
const byAnyOrigin = cors({ origin: '*', allowMethods, exposeHeaders, maxAge });

export const allowOrigins = createMiddleware<AppEnv>((c, next) =>
  c.var.context.config.corsOrigins.includes('*') ? byAnyOrigin(c, next) : byOrigin(c, next),
);
