// Reads request bodies: text of limited size, however it is transferred, handed on as JSON whatever its content type
// says. Checks no schema.
import type { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { runInBackground } from '../background.ts';
import { RefusedError, type Limit } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

/** A batch of the bridge and a hook have to come in this time, too. */
const bodySeconds = 10;

/** @throws RefusedError limit_reached for a larger body, before it is read to its end */
export function readBody(limit: Limit) {
  return createMiddleware<AppEnv>(async (c, next) => {
    // No route reads a body here, and a Request of these methods cannot carry one.
    if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
    const text = await readText(c.req.raw, limit.max);
    if (text === undefined) throw new RefusedError({ kind: 'limit_reached', limit });
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
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => resolve('late'), bodySeconds * 1000);
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  let isLeft = true;
  // The stream fails with whatever the transport says of a client that leaves or sends malformed chunks.
  let cause = `not within ${bodySeconds} s`;
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), late]);
      if (read === 'late') break;
      isLeft = !read.done;
      if (read.done) return text + decoder.decode();
      size += read.value.byteLength;
      if (size > maxBytes) return undefined;
      text += decoder.decode(read.value, { stream: true });
      // Waiting for the end as well would be another turn.
      if (size === declaredBytes) {
        isLeft = false;
        return text + decoder.decode();
      }
    }
  } catch (error) {
    isLeft = false;
    cause = String(error);
  } finally {
    clearTimeout(timer);
    if (isLeft) runInBackground('leave a request body', reader.cancel());
  }
  throw new RefusedError({ kind: 'body_not_received', cause });
}

type BodyOptions = { isRequired?: boolean; examples?: Record<string, { value: unknown }> };

/** The body of a route, for `createRoute`; without `isRequired` an absent one reads like `{}`. */
export function jsonBody<T extends z.ZodType>(schema: T, { isRequired = true, examples }: BodyOptions = {}) {
  return { required: isRequired, content: { 'application/json': { schema, ...(examples && { examples }) } } };
}
