// Headers of every answer: it is not to be cached, framed, sniffed or run. Which origins may read it is set in
// cross-origin.ts.
import { createMiddleware } from 'hono/factory';
import type { Context } from 'hono';
import type { AppEnv } from './app-env.ts';

// Without what concerns pages and old browsers: devices read every byte into a small buffer.
const headers = {
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=15552000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  // Answers hold tokens and what belongs to one user: no cache in between may keep them.
  'Cache-Control': 'no-store',
};

/** Where envelopes alone are answered, with few exceptions. */
export function isEnveloped(path: string): boolean {
  return path.startsWith('/api/');
}

export const setAnswerHeaders = createMiddleware<AppEnv>((c, next) => {
  // The answer to an upgrade carries the socket and cannot be changed.
  if (c.req.header('Upgrade') !== undefined) return next();
  const collected = c.get('answerHeaders');
  if (collected !== undefined) Object.assign(collected, headers);
  // Before the answer is made: Hono makes it once more for a header that is set afterwards.
  else for (const [name, value] of Object.entries(headers)) c.header(name, value);
  return next();
});

/** Before Hono makes an answer: an envelope is made with all headers at once, which costs a fraction (envelope.ts). */
export function setCollectedHeaders(c: Context<AppEnv>): void {
  for (const [name, value] of Object.entries(c.get('answerHeaders') ?? {})) c.header(name, value);
  c.set('answerHeaders', undefined);
}
