// Headers of the pages for people. What a page may load and run is its own policy; no page is framed or sniffed.
import type { MiddlewareHandler } from 'hono';

const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Origin-Agent-Cluster': '?1',
  'Referrer-Policy': 'no-referrer',
  'Strict-Transport-Security': 'max-age=15552000; includeSubDomains',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** @param policy what the page may load besides nothing, as directives of a Content-Security-Policy */
export function setPageHeaders(policy: string): MiddlewareHandler {
  const all = {
    ...headers,
    'Content-Security-Policy': `default-src 'none'; ${policy}; base-uri 'none'; frame-ancestors 'none'`,
  };
  return async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(all)) c.res.headers.set(name, value);
  };
}
