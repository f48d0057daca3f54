// Calls a broker hook as a broker would, and reads what it would read: status, type and bytes. Asserts nothing.
import { exports } from 'cloudflare:workers';
import { vi } from 'vitest';

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

/** The log lines of calls: their refusals (undefined in a line without one), the requests they belong to, and their text. */
export async function captureLog(call: () => Promise<unknown>) {
  const lines: string[] = [];
  const info = vi.spyOn(console, 'info').mockImplementation((line: string) => void lines.push(line));
  await call();
  info.mockRestore();
  const parsed = lines
    .map((line) => JSON.parse(line) as { event: string; requestId: string; refusal?: unknown })
    // The device's own line, which belongs to no request.
    .filter(({ event }) => event !== 'device login refused');
  return {
    refusals: parsed.map(({ refusal }) => refusal),
    requestIds: new Set(parsed.map(({ requestId }) => requestId)),
    text: lines.join('\n'),
  };
}
