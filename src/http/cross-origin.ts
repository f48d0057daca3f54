// Browser applications of the configured origins may call the interface (field note 30). Never with credentials: tokens travel
// in headers, cookies are not used. Pages of other sites may write nothing.
import { cors } from 'hono/cors';
import { createMiddleware } from 'hono/factory';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './router.ts';

const answerOrigin = cors({
  allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
  exposeHeaders: ['X-Request-Id', 'Retry-After'],
  maxAge: 86_400,
  origin: (origin, c) => {
    const { corsOrigins } = (c.var as AppEnv['Variables']).context.config;
    if (corsOrigins.includes('*')) return '*';
    return isAllowedBy(corsOrigins, origin) ? origin : null;
  },
});

/** A request without `Origin` comes from no page: the headers would tell nobody anything, and cost a sixth of a short request. */
export const allowOrigins = createMiddleware<AppEnv>((c, next) =>
  c.req.header('Origin') === undefined ? next() : answerOrigin(c, next),
);

const safeMethods = ['GET', 'HEAD', 'OPTIONS'];

/**
 * A page of another site may send a simple request without asking. It would guess passwords and activate devices with the
 * address of its visitor. For a request with a credential in a header, a browser asks first.
 */
export const refuseCrossSite = createMiddleware<AppEnv>(async (c, next) => {
  const header = (name: string) => c.req.header(name) ?? '';
  const hasCredential = header('Authorization') + header('X-API-Key') !== '';
  const isCrossSite = header('Sec-Fetch-Site') === 'cross-site' && !safeMethods.includes(c.req.method);
  if (isCrossSite && !hasCredential && !isAllowedBy(c.var.context.config.corsOrigins, header('Origin')))
    throw new RefusedError({ kind: 'cross_site', origin: header('Origin') });
  await next();
});

const isAllowedBy = (corsOrigins: readonly string[], origin: string): boolean =>
  corsOrigins.some((allowed) => allowed === '*' || isAllowed(origin, allowed));

/** `http://localhost:*` is that host with any port, or none. */
function isAllowed(origin: string, allowed: string): boolean {
  if (!allowed.endsWith(':*')) return origin === allowed;
  const host = allowed.slice(0, -2);
  return origin === host || (origin.startsWith(`${host}:`) && /^\d+$/.test(origin.slice(host.length + 1)));
}
