// One way to make a router, and one reading of invalid input: routes of the reference answer it alike, the others
// choose their answer.
import { OpenAPIHono } from '@hono/zod-openapi';
import { zValidator } from '@hono/zod-validator';
import type { Context, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import type { z } from 'zod';
import { RefusedError, type Refusal } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';
import { RememberingRouter } from './remembering-router.ts';

/** A path in which a parser of URLs would change nothing. Most are, and parsing takes ten times as long. */
const plainPath = /^https?:\/\/[\w.:[\]-]+((?:\/[\w~-][\w.~-]*)+\/?)(?:[?#]|$)/;

/** Base addresses entered with a trailing slash double it (field note 14): served like the normal path. */
function pathOf(url: string): string {
  return new URL(url).pathname.replace(/\/{2,}/g, '/');
}

type HonoRouter = InstanceType<typeof OpenAPIHono<AppEnv>>['router'];

/** Of routes that an app mounts: they are found there, and a router of their own would only make a start longer. */
const unasked: HonoRouter = {
  name: 'none',
  add: () => undefined,
  match: () => {
    throw new Error('these routes are not mounted in an app');
  },
};

/** For routes that an app mounts. */
export function createRouter(router: HonoRouter = unasked) {
  return new OpenAPIHono<AppEnv>({
    router,
    getPath: ({ url }) => plainPath.exec(url)?.[1] ?? pathOf(url),
    defaultHook: (result) => {
      if (!result.success) throw new RefusedError(refusalOf(result.error.issues));
    },
  });
}

/** For the app, which mounts all others. */
export const createRootRouter = () => createRouter(new RememberingRouter());

/**
 * Validates the JSON body of a route outside the reference; `answer` is what its caller understands as a refusal. The schema is
 * asked for with the first request.
 */
export function validJson<T extends z.ZodType>(
  schemaOf: () => T,
  answer: (c: Context<AppEnv>, refusal: Refusal) => Response,
): MiddlewareHandler<AppEnv, string, { in: { json: z.input<T> }; out: { json: z.output<T> } }> {
  const make = (): MiddlewareHandler =>
    zValidator('json', schemaOf(), (result, c) =>
      result.success ? undefined : answer(c as Context<AppEnv>, refusalOf(result.error.issues)),
    );
  let made: MiddlewareHandler | undefined;
  const validate: MiddlewareHandler = (c, next) => (made ??= make())(c, next);
  // The cast: zod-validator's own type cannot be resolved while T is open.
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
