// How routes are made: the router and what a handler finds in its context, the declaration of a route, and one reading of
// requests. Bodies are text of limited size, however they are transferred, and JSON whatever their content type says. Routes of
// the reference answer invalid input alike, the others choose their answer.
import { createRoute, OpenAPIHono, z, type RouteConfig } from '@hono/zod-openapi';
import { zValidator } from '@hono/zod-validator';
import type { Context, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { invalidInput, RefusedError, type Limit, type Refusal } from '../domain/refusal.ts';
import { runInBackground, type ServiceContext } from '../context.ts';
import type { Actor } from '../domain/access.ts';
import { startDeadline } from '../objects/calls/within.ts';
import { pageQuerySchema } from '../protocol/http/devices.ts';
import { pathSchemas } from '../protocol/http/paths.ts';

/** Who asks. An API key acts for its user, except if a route wants the user in person. */
export type UserCaller = Actor & { kind: 'user'; sessionId: string };
export type Caller = UserCaller | (Actor & { kind: 'api-key' });

export type AppEnv = {
  Bindings: Env;
  Variables: {
    context: ServiceContext;
    requestId: string;
    caller: Caller;
    /** Why the request was refused, for its log line (request-log.ts). */
    refusal: Refusal | undefined;
    /** Of the body as it came: `readBody` makes each JSON. */
    contentType: string | undefined;
  };
};

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

type NamesIn<Path> = Path extends `${string}{${infer Name extends keyof typeof pathSchemas}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;
type WithParams<Path, Rest> = [NamesIn<Path>] extends [never]
  ? Rest
  : Rest & { request: { params: z.ZodObject<Pick<typeof pathSchemas, NamesIn<Path>>> } };

/** Declares routes of the reference that stand under one of its tags. Each name in braces in a path is one of `pathSchemas`. */
export function routesAbout(tag: string) {
  return <
    const Method extends RouteConfig['method'],
    const Path extends string,
    Rest extends Omit<RouteConfig, 'method' | 'path' | 'tags'>,
  >(
    method: Method,
    path: Path,
    rest: Rest,
  ) => {
    const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as keyof typeof pathSchemas);
    const params = z.object(Object.fromEntries(names.map((name) => [name, pathSchemas[name]])));
    const request = names.length > 0 ? { ...rest.request, params } : rest.request;
    const declared = { ...rest, ...(request && { request }), method, path, tags: [tag] };
    return createRoute(declared) as unknown as WithParams<Path, Rest> & { method: Method; path: Path };
  };
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

/**
 * The first problem, or a member that the body should not have. Its text is zod's or the schema's own and repeats nothing
 * else of the input.
 */
function refusalOf(issues: readonly z.core.$ZodIssue[]): Refusal {
  const unknown = issues.find((issue) => issue.code === 'unrecognized_keys');
  const { path, message } = unknown ?? issues[0] ?? { path: [], message: '' };
  const place = [...path, ...(unknown?.keys.slice(0, 1) ?? [])].map(String).join('.');
  return { kind: 'invalid_input', path: place || 'body', problem: unknown === undefined ? message : 'unknown member' };
}

export const requireUpgrade = createMiddleware<AppEnv>(async (c, next) => {
  if (c.req.header('Upgrade')?.toLowerCase() !== 'websocket') throw invalidInput('Upgrade', 'expected a WebSocket');
  await next();
});

/** A batch of the bridge and a hook have to come in this time, too. */
const bodySeconds = 10;

/** @throws RefusedError limit_reached for a larger body, before it is read to its end */
export function readBody(limit: Limit) {
  return createMiddleware<AppEnv>(async (c, next) => {
    // No route reads a body here, and a Request of these methods cannot carry one.
    if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
    // An image of firmware is passed on as it comes.
    if (c.req.method === 'PUT' && /\/firmware\/[^/]+\/image$/.test(c.req.path)) return next();
    const text = await readText(c.req.raw, limit.max);
    if (text === undefined) throw new RefusedError({ kind: 'limit_reached', limit });
    c.set('contentType', c.req.header('Content-Type'));
    replaceBody(c, text);
    await next();
  });
}

/**
 * Makes `text` the JSON body of the request: `curl -d` and small HTTP stacks send another content type, or none. A JSON
 * content type without a body is no body, not a malformed one (field note 19).
 */
export function replaceBody(c: Context, text: string, method = c.req.method): void {
  const headers = new Headers(c.req.raw.headers);
  if (text === '') headers.delete('Content-Type');
  else headers.set('Content-Type', 'application/json');
  c.req.raw = new Request(c.req.raw.url, { method, headers, ...(text === '' ? {} : { body: text }) });
}

/**
 * The body as text; undefined where it is larger, which is noticed before it was read to its end.
 * @throws RefusedError where it does not come whole, or not in time
 */
export async function readText(request: Request, maxBytes: number): Promise<string | undefined> {
  const declaredBytes = Number(request.headers.get('Content-Length') ?? Number.NaN);
  if (declaredBytes > maxBytes) return undefined;
  if (request.body === null) return '';
  const reader = (request.body as ReadableStream<Uint8Array>).getReader();
  const leave = () => runInBackground('leave a request body', reader.cancel());
  const deadline = startDeadline(bodySeconds * 1000);
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), deadline.passed]);
      if (read === undefined) break;
      size += read.value?.byteLength ?? 0;
      if (size > maxBytes) {
        leave();
        return undefined;
      }
      text += decoder.decode(read.value, { stream: true });
      // Waiting for the end behind the last declared byte would be another turn.
      if (read.done || size === declaredBytes) return text + decoder.decode();
    }
  } catch (error) {
    // The stream fails with whatever the transport says of a client that leaves or sends malformed chunks.
    throw new RefusedError({ kind: 'body_not_received', cause: String(error) });
  } finally {
    deadline.stop();
  }
  leave();
  throw new RefusedError({ kind: 'body_not_received', cause: `not within ${bodySeconds} s` });
}

type BodyOptions = { isRequired?: boolean; examples?: Record<string, { value: unknown }> };

/** The body of a route, for `createRoute`; without `isRequired` an absent one reads like `{}`. */
export function jsonBody<T extends z.ZodType>(schema: T, { isRequired = true, examples }: BodyOptions = {}) {
  return { required: isRequired, content: { 'application/json': { schema, ...(examples && { examples }) } } };
}

/** A declaration whose request asks for a page of a list. */
export function paged<Declared extends object>(declared: Declared) {
  return { ...declared, request: { query: pageQuerySchema } };
}
