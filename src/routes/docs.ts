// The pages that show the reference to people: static files of public/, sent by the Worker itself so that their
// headers are set here. They show the documents of reference.ts and load nothing from other hosts.
import { secureHeaders } from 'hono/secure-headers';
import { createRouter } from '../http/router.ts';

const setPageHeaders = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", 'data:'],
    // For "Try it out", which calls this server.
    connectSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
  xFrameOptions: 'DENY',
});

export const docsRoutes = createRouter();

docsRoutes.use(setPageHeaders);

docsRoutes.get('/*', async (c) => {
  const url = new URL(c.req.url);
  url.pathname = c.req.path;
  const file = await c.env.ASSETS.fetch(new Request(url, { headers: c.req.raw.headers }));
  if (file.status === 404) return c.notFound();
  return c.newResponse(file.body, file);
});
