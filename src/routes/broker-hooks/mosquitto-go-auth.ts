// mosquitto with mosquitto-go-auth's HTTP backend, its response mode `status` or `json`. Can send no header of ours, so
// the secret travels in the path. The plugin does not say whether a message is retained. Checked against the plugin's
// source, 3.0.0; never run.
import type { Context } from 'hono';
import { wireErrorOf, type Refusal } from '../../domain/refusal.ts';
import { type AppEnv, createRouter, validJson } from '../../http/router.ts';
import { noteRefusal } from '../../http/request-log.ts';
import { goAuthAclSchema, goAuthUserSchema } from '../../protocol/hooks.ts';
import { decideConnect, decideTopic } from '../../services/broker/messaging-auth.ts';

export const mosquittoGoAuthHookRoutes = createRouter();

/** By mosquitto's number for read, write, both or subscribe. */
const actionsByAccess = { 1: ['receive'], 2: ['publish'], 3: ['receive', 'publish'], 4: ['subscribe'] } as const;

mosquittoGoAuthHookRoutes.post('/user', validJson(goAuthUserSchema, denyLogin), async (c) => {
  const { username, password, clientid: clientId } = c.req.valid('json');
  const decision = await decideConnect(c.var.context, { clientId, username, password });
  return decision.ok ? allow(c) : denyLogin(c, decision.refusal);
});

/** Asked about every client; nobody is a superuser. */
mosquittoGoAuthHookRoutes.post('/superuser', (c) => c.json({ ok: false, error: 'forbidden' }, 403));

mosquittoGoAuthHookRoutes.post('/acl', validJson(goAuthAclSchema, deny), (c) => {
  const { username, topic, acc } = c.req.valid('json');
  const refusals = actionsByAccess[acc].map((action) => decideTopic(c.var.context, username, { action, topic }));
  const refusal = refusals.find((refused) => refused !== undefined);
  return refusal === undefined ? allow(c) : deny(c, refusal);
});

function allow(c: Context) {
  return c.json({ ok: true, error: '' });
}

function denyLogin(c: Context<AppEnv>, refusal: Refusal) {
  return deny(c, refusal, refusal.kind === 'invalid_input' ? 'invalid_password' : wireErrorOf(refusal).message);
}

function deny(c: Context<AppEnv>, refusal: Refusal, error = 'forbidden') {
  noteRefusal(c, refusal);
  return c.json({ ok: false, error }, 403);
}
