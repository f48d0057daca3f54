// One way to make a router: typed routes from zod schemas, and every invalid request answered the same way.
import { OpenAPIHono } from '@hono/zod-openapi';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

export function createRouter() {
  return new OpenAPIHono<AppEnv>({
    // Base addresses entered with a trailing slash double it (tolerance 14): served like the normal path.
    getPath: (request) => new URL(request.url).pathname.replace(/\/{2,}/g, '/'),
    defaultHook: (result) => {
      if (result.success) return;
      const issue = result.error.issues[0];
      const path = issue?.path.join('.') ?? '';
      throw new RefusedError({
        kind: 'invalid_input',
        path: path === '' ? 'body' : path,
        problem: issue?.message ?? '',
      });
    },
  });
}
