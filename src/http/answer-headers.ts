// Headers of every answer: it is not to be cached, framed, sniffed or run. Which origins may read it is set in
// cross-origin.ts.
import { createMiddleware } from 'hono/factory';
import type { AppEnv } from './app-env.ts';

// Without headers that concern pages and old browsers: devices read every byte into a small buffer.
const headers = {
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=15552000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  // Answers hold tokens and data of one user: no cache in between may keep them.
  'Cache-Control': 'no-store',
};

export const setAnswerHeaders = createMiddleware<AppEnv>((c, next) => {
  // The answer to an upgrade carries the socket and cannot be changed.
  if (c.req.header('Upgrade') === undefined) {
    // Before the answer is made: Hono makes it once more for a header that is set afterwards.
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
  }
  return next();
});
