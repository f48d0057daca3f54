// Gives each request its id and writes its one log line: what was asked, how it ended and why it was refused; never a
// body, a query or a credential.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { matchedRoutes, routePath } from 'hono/route';
import type { Refusal } from '../domain/refusal.ts';
import { log } from '../log.ts';
import { uplinkPath } from '../protocol/bridge.ts';
import type { AppEnv } from './router.ts';

export const logRequest = createMiddleware<AppEnv>(async (c, next) => {
  const startedAtMs = Date.now();
  const { method, path } = c.req;
  // An id from outside is used if it cannot be mistaken for anything else in a log.
  const outerIds = [c.req.header('X-Request-Id'), c.req.header('CF-Ray')];
  const requestId = outerIds.find((id) => id !== undefined && /^[\w.-]{1,64}$/.test(id)) ?? crypto.randomUUID();
  c.set('requestId', requestId);
  c.header('X-Request-Id', requestId);
  await next();
  // The bridge counts its batches itself; a line for each would be most of the log.
  if (path === uplinkPath && c.res.ok) return;
  const { caller } = c.var as Partial<AppEnv['Variables']>;
  log('info', 'request', () => ({
    requestId,
    method,
    // The pattern, not the path: paths may hold secrets, and patterns can be counted.
    route: matchedRoutes(c).findLast((route) => route.method !== 'ALL')?.path ?? routePath(c, -1),
    code: c.res.status,
    durationMs: Date.now() - startedAtMs,
    caller: caller?.kind ?? 'none',
    userId: caller?.userId,
    refusal: c.var.refusal,
  }));
});

/**
 * Puts a refusal into the log line of its request, whatever the status of the answer. One request may refuse several
 * topics: those after the first get lines of their own.
 */
export function noteRefusal(c: Context<AppEnv>, refusal: Refusal): void {
  if (c.var.refusal === undefined) c.set('refusal', refusal);
  else log('info', 'refused as well', { requestId: c.var.requestId, refusal });
}
