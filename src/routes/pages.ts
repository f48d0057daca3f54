// The pages for people: the console at / and the reference under /docs. Static files of public/, sent by the Worker itself
// so that their headers are set here. They load nothing from other hosts.
import { secureHeaders } from 'hono/secure-headers';
import { createRouter } from '../http/router.ts';

const setPageHeaders = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", 'data:'],
    // The interface and the relay of this server.
    connectSrc: ["'self'"],
    manifestSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
  xFrameOptions: 'DENY',
});

export const pageRoutes = createRouter();

for (const path of ['/', '/icon.svg', '/manifest.webmanifest', '/console/*', '/docs', '/docs/*']) {
  pageRoutes.get(path, setPageHeaders, async (c) => {
    const url = new URL(c.req.url);
    url.pathname = c.req.path;
    const file = await c.env.ASSETS.fetch(new Request(url, { headers: c.req.raw.headers }));
    if (file.status === 404) return c.notFound();
    return c.newResponse(file.body, file);
  });
}
