// Browser applications of the configured origins may call the interface (field note 30). Never with credentials:
// tokens travel in headers, cookies are not used.
import { cors } from 'hono/cors';
import { createMiddleware } from 'hono/factory';
import type { AppEnv } from './app-env.ts';

const options = {
  allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
  exposeHeaders: ['X-Request-Id', 'Retry-After'],
  maxAge: 86_400,
};
const byAnyOrigin = cors({ ...options, origin: '*' });
const byOrigin = cors({
  ...options,
  origin: (origin, c) => {
    const { corsOrigins } = (c.var as AppEnv['Variables']).context.config;
    return corsOrigins.some((allowed) => isAllowed(origin, allowed)) ? origin : null;
  },
});

/** A request without `Origin` comes from no page: the headers would tell nobody anything, and cost a sixth of a short request. */
export const allowOrigins = createMiddleware<AppEnv>((c, next) => {
  if (c.req.header('Origin') === undefined) return next();
  return (c.var.context.config.corsOrigins.includes('*') ? byAnyOrigin : byOrigin)(c, next);
});

/** `http://localhost:*` is that host with any port, or none. */
function isAllowed(origin: string, allowed: string): boolean {
  if (!allowed.endsWith(':*')) return origin === allowed;
  const host = allowed.slice(0, -2);
  return origin === host || (origin.startsWith(`${host}:`) && /^\d+$/.test(origin.slice(host.length + 1)));
}
