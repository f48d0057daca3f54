// Browser applications of the configured origins may call the interface (field note 30). Never with credentials:
// tokens travel in headers, cookies are not used.
import { cors } from 'hono/cors';
import { createMiddleware } from 'hono/factory';
import { setCollectedHeaders } from './answer-headers.ts';
import type { AppEnv } from './app-env.ts';

const exposeHeaders = ['X-Request-Id', 'Retry-After'];
const allowMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const maxAge = 86_400;

const byOrigin = cors({
  origin: (origin, c) => {
    const { corsOrigins } = (c.var as AppEnv['Variables']).context.config;
    return corsOrigins.some((allowed) => isAllowed(origin, allowed)) ? origin : null;
  },
  allowMethods,
  exposeHeaders,
  maxAge,
});
/** `http://localhost:*` is that host with any port, or none. */
function isAllowed(origin: string, allowed: string): boolean {
  if (!allowed.endsWith(':*')) return origin === allowed;
  const host = allowed.slice(0, -2);
  return origin === host || (origin.startsWith(`${host}:`) && /^\d+$/.test(origin.slice(host.length + 1)));
}

const byAnyOrigin = cors({ origin: '*', allowMethods, exposeHeaders, maxAge });

export const allowOrigins = createMiddleware<AppEnv>((c, next) => {
  const headers = c.get('answerHeaders');
  const isByAny = c.get('context').config.corsOrigins.includes('*');
  if (isByAny || headers === undefined || c.req.method === 'OPTIONS' || c.req.header('Origin') !== undefined) {
    setCollectedHeaders(c);
    return (isByAny ? byAnyOrigin : byOrigin)(c, next);
  }
  // What it would set, without the three more answers that Hono makes when headers are set on one that exists.
  headers['Access-Control-Expose-Headers'] = exposeHeaders.join();
  headers['Vary'] = 'Origin';
  return next();
});
