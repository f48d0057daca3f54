// The fields of a hook's request, whichever way a broker sends them: JSON, form or query. Reads; checks nothing.
import type { Context } from 'hono';
import { readText } from '../../http/read-text.ts';

/** Hooks that carry a published message are the largest, and devices' messages are small. */
const maxBodyBytes = 64 * 1024;

/** undefined for a body that is too large or cannot be read. */
export async function readFields(c: Context): Promise<unknown> {
  if (c.req.method === 'GET') return c.req.query();
  const text = await readText(c.req.raw, maxBodyBytes);
  if (text === undefined) return undefined;
  if (c.req.header('Content-Type')?.includes('x-www-form-urlencoded') === true) {
    return Object.fromEntries(new URLSearchParams(text));
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
