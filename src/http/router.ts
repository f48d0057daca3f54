// One way to make a router, and one reading of invalid input: routes of the reference answer it alike, the others
// choose their answer.
import { createRoute, OpenAPIHono, type RouteConfig } from '@hono/zod-openapi';
import { zValidator } from '@hono/zod-validator';
import type { Context, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import type { z } from 'zod';
import { RefusedError, type Refusal } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

/** Base addresses entered with a trailing slash double it (field note 14): served like the normal path. */
const getPath = ({ url }: Request): string => new URL(url).pathname.replace(/\/{2,}/g, '/');

export function createRouter() {
  return new OpenAPIHono<AppEnv>({
    getPath,
    defaultHook: (result) => {
      if (!result.success) throw new RefusedError(refusalOf(result.error.issues));
    },
  });
}

/** Declares routes of the reference that stand under one of its tags. */
export function routesAbout(tag: string) {
  return <
    const Method extends RouteConfig['method'],
    const Path extends string,
    Rest extends Omit<RouteConfig, 'method' | 'path' | 'tags'>,
  >(
    method: Method,
    path: Path,
    rest: Rest,
  ) => createRoute({ ...rest, method, path, tags: [tag] });
}

/** Validates the JSON body of a route outside the reference; `answer` is what its caller understands as a refusal. */
export function validJson<T extends z.ZodType>(
  schema: T,
  answer: (c: Context<AppEnv>, refusal: Refusal) => Response,
): MiddlewareHandler<AppEnv, string, { in: { json: z.input<T> }; out: { json: z.output<T> } }> {
  const validate = zValidator('json', schema, (result, c) =>
    result.success ? undefined : answer(c as Context<AppEnv>, refusalOf(result.error.issues)),
  );
  // The type of zod-validator cannot be resolved while T is open.
  return validate as never;
}

/** The first problem; its text is zod's or the schema's own and repeats nothing of the input. */
function refusalOf([issue]: readonly { path: PropertyKey[]; message: string }[]): Refusal {
  const path = issue?.path.map(String).join('.') ?? '';
  return { kind: 'invalid_input', path: path === '' ? 'body' : path, problem: issue?.message ?? '' };
}

export const requireUpgrade = createMiddleware<AppEnv>(async (c, next) => {
  if (c.req.header('Upgrade')?.toLowerCase() !== 'websocket') {
    throw new RefusedError({ kind: 'invalid_input', path: 'Upgrade', problem: 'expected a WebSocket' });
  }
  await next();
});
