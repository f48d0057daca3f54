// What a request body must satisfy before any route reads it: JSON of at most 64 KiB (decisions, Envelope).
import { bodyLimit } from 'hono/body-limit';
import { createMiddleware } from 'hono/factory';
import { ServiceError } from '../domain/errors.ts';
import type { AppEnv } from './app-env.ts';

const maxBodyBytes = 64 * 1024;

export const limitBody = bodyLimit({
  maxSize: maxBodyBytes,
  onError: () => {
    throw new ServiceError('invalid_request', { detail: 'body: larger than 64 KiB' });
  },
});

/** Bodies are JSON whatever they are called: `curl -d` and small HTTP stacks send another content type, or none. */
export const assumeJson = createMiddleware<AppEnv>(async (c, next) => {
  const request = c.req.raw;
  if (request.body !== null && !/^application\/([a-z-.]+\+)?json/i.test(request.headers.get('content-type') ?? '')) {
    const headers = new Headers(request.headers);
    headers.set('content-type', 'application/json');
    c.req.raw = new Request(request, { headers });
  }
  await next();
});
