// Headers of answers and of the pages for people: what may be cached, framed, sniffed or run. Which origins may read an
// answer is set in cross-origin.ts.
import type { MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import type { AppEnv } from './router.ts';

const commonHeaders = {
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=15552000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

// Without headers that concern pages and old browsers: devices read every byte into a small buffer.
const answerHeaders = {
  ...commonHeaders,
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  // Answers hold tokens and data of one user: no cache in between may keep them.
  'Cache-Control': 'no-store',
};

export const setAnswerHeaders = createMiddleware<AppEnv>((c, next) => {
  // The answer to an upgrade carries the socket and cannot be changed.
  if (c.req.header('Upgrade') === undefined) {
    // Before the answer is made: Hono makes it once more for a header that is set afterwards.
    for (const [name, value] of Object.entries(answerHeaders)) c.header(name, value);
  }
  return next();
});

/** @param policy what the page may load, as directives of a Content-Security-Policy */
export function setPageHeaders(policy: string): MiddlewareHandler {
  const headers = {
    ...commonHeaders,
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Origin-Agent-Cluster': '?1',
    'Content-Security-Policy': `default-src 'none'; ${policy}; base-uri 'none'; frame-ancestors 'none'`,
  };
  return async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
  };
}
