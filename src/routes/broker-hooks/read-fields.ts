// The fields of a hook's request as a JSON body, whichever way a broker sends them: JSON, form or query. Checks no
// schema. What cannot be read becomes `null`, because a hook has to be answered in its vendor's own form.
import { createMiddleware } from 'hono/factory';
import { parseJson } from '../../domain/json.ts';
import type { AppEnv } from '../../http/app-env.ts';
import { readText, replaceBody } from '../../http/request-body.ts';

/** Hooks that carry a published message are the largest, and devices' messages are small. */
const maxBodyBytes = 64 * 1024;

export const readFields = createMiddleware<AppEnv>(async (c, next) => {
  if (c.req.method === 'GET') {
    replaceBody(c, JSON.stringify(c.req.query()), 'POST');
    return next();
  }
  const text = (await readText(c.req.raw, maxBodyBytes)) ?? '';
  const isForm = c.req.header('Content-Type')?.includes('x-www-form-urlencoded') === true;
  const json = isForm ? JSON.stringify(Object.fromEntries(new URLSearchParams(text))) : text;
  replaceBody(c, parseJson(json) === undefined ? 'null' : json);
  await next();
});
