// What brokers call to ask who may log in and use which topic, and to report sessions that began or ended. One adapter
// a vendor, each in its own file of broker-hooks/; the policy is services/broker/messaging-auth.ts.
import { createMiddleware } from 'hono/factory';
import { parseJson } from '../../domain/json.ts';
import { type AppEnv, readText, replaceBody, createRouter } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { emqxHookRoutes } from './emqx.ts';
import { rabbitmqHookRoutes } from './rabbitmq.ts';

/** Hooks that carry a published message are the largest, and devices' messages are small. */
const maxBodyBytes = 64 * 1024;

/**
 * The fields of a hook's request as a JSON body, if a broker sends JSON, a form or a query. A body that cannot be read
 * becomes `null`: its vendor's adapter refuses it in the vendor's own form.
 */
const readFields = createMiddleware<AppEnv>(async (c, next) => {
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

export const brokerHookRoutes = createRouter();

brokerHookRoutes.use(requireSecret('brokerHookSecrets'), readFields);

for (const [vendor, routes] of [
  ['emqx', emqxHookRoutes],
  ['rabbitmq', rabbitmqHookRoutes],
] as const) {
  brokerHookRoutes.route(`/${vendor}`, routes);
  // For brokers that can send no header: `requireSecret` reads the secret from the path.
  brokerHookRoutes.route(`/${vendor}/s/:secret`, routes);
}
