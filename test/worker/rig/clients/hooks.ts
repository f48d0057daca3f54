// Calls a broker hook as a broker would, and reads what it would read: status, type and bytes. Asserts nothing.
import { exports } from 'cloudflare:workers';

export const hookSecret = 'broker-hook-secret-of-the-worker-tests';

export type HookAnswer = { status: number; type: string | null; body: string };

export async function callHook(
  path: string,
  body: string,
  headers: Record<string, string>,
  method = 'POST',
): Promise<HookAnswer> {
  const request = new Request(`https://latchwork.test/hooks/${path}`, {
    method,
    headers,
    ...(method === 'POST' ? { body } : {}),
  });
  const response = await exports.default.fetch(request);
  return { status: response.status, type: response.headers.get('Content-Type'), body: await response.text() };
}
