// The Worker under test with other limits (docs/limits.md) or bindings. Asserts nothing.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { createApp } from '../../../src/app.ts';
import type { Answer } from './clients/client.ts';

type Options = { token?: string; body?: unknown };

/** As `call`, answered by a Worker whose setting `LIMITS` is `limits`. */
export function callLimited<T = never>(
  limits: string,
  method: string,
  path: string,
  options: Options,
): Promise<Answer<T>> {
  return callWith({ LIMITS: limits }, method, path, options);
}

/** As `call`, answered by a Worker with these settings and bindings in place of its own. */
export async function callWith<T = never>(
  bindings: Partial<Record<keyof Env, unknown>>,
  method: string,
  path: string,
  { token, body }: Options,
): Promise<Answer<T>> {
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const response = await fetchWith(bindings, method, path, headers, body);
  const envelope = await response.json<{ code: number; message: string; data: T }>();
  return { status: response.status, headers: response.headers, ...envelope };
}

export async function fetchWith(
  bindings: Partial<Record<keyof Env, unknown>>,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: unknown,
): Promise<Response> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const request = new Request(`https://latchwork.test/api/v1${path}`, { method, headers, ...content });
  return createApp().fetch(request, { ...env, ...bindings }, createExecutionContext());
}

/** A limiter of `limit` uses a key. */
export function limiter(limit: number): RateLimit {
  const uses = new Map<string, number>();
  return {
    limit: ({ key }) => {
      uses.set(key, (uses.get(key) ?? 0) + 1);
      return Promise.resolve({ success: (uses.get(key) ?? 0) <= limit });
    },
  };
}

/** Bindings that note which objects of devices are called. */
export function countWoken() {
  const woken: string[] = [];
  const DEVICE_SESSION = {
    getByName(name: string) {
      woken.push(name);
      return env.DEVICE_SESSION.getByName(name);
    },
  };
  return { changed: { DEVICE_SESSION }, woken };
}
