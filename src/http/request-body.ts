// What a request body must satisfy before any route reads it: JSON of at most 64 KiB (decisions, Envelope), however
// it is transferred and whatever its content type says.
import type { z } from '@hono/zod-openapi';
import { createMiddleware } from 'hono/factory';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

const maxBodyBytes = 64 * 1024;

export const readBody = createMiddleware<AppEnv>(async (c, next) => {
  const request = c.req.raw;
  // No route of ours reads a body here, and a Request of these methods cannot be made anew with one.
  if (request.method === 'GET' || request.method === 'HEAD') return next();
  const body = await readText(request);
  const headers = new Headers(request.headers);
  // Bodies are JSON whatever they are called: `curl -d` and small HTTP stacks send another content type, or none. And
  // a JSON content type without a body is no body, not a malformed one (tolerance 19).
  if (body === '') headers.delete('Content-Type');
  else headers.set('Content-Type', 'application/json');
  c.req.raw = new Request(request.url, { method: request.method, headers, ...(body === '' ? {} : { body }) });
  await next();
});

type BodyOptions = { isRequired?: boolean; examples?: Record<string, { value: unknown }> };

/** The body of a route, for `createRoute`; without `isRequired` an absent one reads like `{}`. */
export function jsonBody<T extends z.ZodType>(schema: T, { isRequired = true, examples }: BodyOptions = {}) {
  return { required: isRequired, content: { 'application/json': { schema, ...(examples && { examples }) } } };
}

async function readText(request: Request): Promise<string> {
  // Says no before the first byte where the length is announced; chunked bodies are counted as they come.
  let size = Number(request.headers.get('Content-Length') ?? 0);
  if (size > maxBodyBytes) throw tooLarge();
  if (request.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  size = 0;
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBodyBytes) throw tooLarge();
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(): RefusedError {
  return new RefusedError({ kind: 'limit_reached', limit: { name: 'request_body_bytes', max: maxBodyBytes } });
}
