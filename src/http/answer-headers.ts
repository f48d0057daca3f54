// Headers every answer carries: nothing is cached, framed, sniffed or run. Which origins may read answers is
// configuration (cross-origin.ts).
import type { MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { secureHeaders } from 'hono/secure-headers';
import type { AppEnv } from './app-env.ts';

const secure: MiddlewareHandler = secureHeaders({
  contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  xFrameOptions: 'DENY',
  // These concern pages and browsers of long ago; devices read every byte over a small buffer.
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

export const setAnswerHeaders = createMiddleware<AppEnv>(async (c, next) => {
  // The answer to an upgrade is not ours to change: it carries the socket.
  if (c.req.header('Upgrade') !== undefined) return next();
  // Answers hold tokens and what belongs to one user: no cache in between may keep them.
  c.header('Cache-Control', 'no-store');
  return secure(c, next);
});
