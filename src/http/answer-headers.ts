// Headers of every answer: it is not to be cached, framed, sniffed or run. Which origins may read it is set in
// cross-origin.ts.
import type { MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { secureHeaders } from 'hono/secure-headers';
import type { AppEnv } from './app-env.ts';

const secure: MiddlewareHandler = secureHeaders({
  contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  xFrameOptions: 'DENY',
  // These concern pages and old browsers; devices read every byte into a small buffer.
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

export const setAnswerHeaders = createMiddleware<AppEnv>(async (c, next) => {
  // The answer to an upgrade carries the socket and cannot be changed.
  if (c.req.header('Upgrade') !== undefined) return next();
  // Answers hold tokens and what belongs to one user: no cache in between may keep them.
  c.header('Cache-Control', 'no-store');
  return secure(c, next);
});
