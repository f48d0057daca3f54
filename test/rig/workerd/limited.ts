// The Worker under test with other limits (docs/limits.md). Asserts nothing.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { createApp } from '../../../src/app.ts';
import type { Answer } from './client.ts';

/** As `call`, by a Worker whose setting `LIMITS` is `limits`. */
export async function callLimited<T = never>(
  limits: string,
  method: string,
  path: string,
  { token, body }: { token?: string; body?: unknown },
): Promise<Answer<T>> {
  const request = new Request(`https://latchwork.test/api/v1${path}`, {
    method,
    headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const response = await createApp().fetch(request, { ...env, LIMITS: limits }, createExecutionContext());
  const envelope = await response.json<{ code: number; message: string; data: T }>();
  return { status: response.status, headers: response.headers, ...envelope };
}
