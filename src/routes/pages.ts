// The pages for people: the console at / and the reference under /docs. Static files of public/, sent by the Worker itself
// so that their headers are set here. They load nothing from other hosts.
import { setPageHeaders } from '../http/headers.ts';
import { createRouter } from '../http/router.ts';

/** The interface and the relay of this server, and nothing of others. */
const policy = [
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "manifest-src 'self'",
  "form-action 'none'",
].join('; ');

export const pageRoutes = createRouter();

for (const path of ['/', '/icon.svg', '/manifest.webmanifest', '/sw.js', '/console/*', '/docs', '/docs/*']) {
  pageRoutes.get(path, setPageHeaders(policy), async (c) => {
    const url = new URL(c.req.url);
    url.pathname = c.req.path;
    const file = await c.env.ASSETS.fetch(new Request(url, { headers: c.req.raw.headers }));
    if (file.status === 404) return c.notFound();
    return c.newResponse(file.body, file);
  });
}
