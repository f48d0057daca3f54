// Gives each request its id and writes its one log line: what was asked and how it ended, never what was sent.
import { createMiddleware } from 'hono/factory';
import { routePath } from 'hono/route';
import type { AppEnv } from './app-env.ts';
import { log } from '../log.ts';
import { uplinkPath } from '../protocol/bridge.ts';

export const logRequest = createMiddleware<AppEnv>(async (c, next) => {
  const startedAtMs = Date.now();
  const given = readId(c.req.header('X-Request-Id')) ?? readId(c.req.header('CF-Ray'));
  const requestId = given ?? crypto.randomUUID();
  c.set('requestId', requestId);
  c.header('X-Request-Id', requestId);
  await next();
  // The bridge counts its batches itself; a line for each would be most of the log.
  if (c.res.ok && c.req.path === uplinkPath) return;
  const refusal = c.get('refusal') as AppEnv['Variables']['refusal'] | undefined;
  log('info', 'request', {
    requestId,
    method: c.req.method,
    // The pattern, not the path: paths hold identifiers, and patterns can be counted.
    route: routePath(c, -1),
    code: c.res.status,
    durationMs: Date.now() - startedAtMs,
    caller: (c.get('caller') as AppEnv['Variables']['caller'] | undefined)?.kind ?? 'none',
    ...(refusal && { refusal }),
  });
});

/** An id from outside is taken over where it cannot be mistaken for anything else in a log. */
function readId(given: string | undefined): string | undefined {
  return given !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : undefined;
}
