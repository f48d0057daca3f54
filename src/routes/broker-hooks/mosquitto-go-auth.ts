// mosquitto with mosquitto-go-auth's HTTP backend, its response mode `status` or `json`. Can send no header of ours, so
// the secret travels in the path. The plugin does not say whether a message is retained.
import type { Context } from 'hono';
import { wireErrorOf } from '../../domain/refusal.ts';
import { createRouter } from '../../http/router.ts';
import { contextOf } from '../../http/service-context.ts';
import { goAuthAclSchema, goAuthUserSchema } from '../../protocol/hooks-mosquitto-go-auth.ts';
import { decideConnect, decideDelivery, decideTopic } from '../../services/messaging-auth.ts';
import { readFields } from './read-fields.ts';

export const mosquittoGoAuthHookRoutes = createRouter();

mosquittoGoAuthHookRoutes.post('/user', async (c) => {
  const request = goAuthUserSchema.safeParse(await readFields(c));
  if (!request.success) return refuse(c, 'invalid_password');
  const { username, password, clientid: clientId } = request.data;
  const decision = await decideConnect(contextOf(c), { clientId, username, password });
  return decision.ok ? allow(c) : refuse(c, wireErrorOf(decision.refusal).message);
});

/** A superuser is asked no further questions: nobody is one. */
mosquittoGoAuthHookRoutes.post('/superuser', (c) => refuse(c, 'forbidden'));

mosquittoGoAuthHookRoutes.post('/acl', async (c) => {
  const request = goAuthAclSchema.safeParse(await readFields(c));
  if (!request.success) return refuse(c, 'forbidden');
  const { username, topic, acc } = request.data;
  return isAccessAllowed(username, topic, acc) ? allow(c) : refuse(c, 'forbidden');
});

function isAccessAllowed(username: string, topic: string, access: 1 | 2 | 3 | 4): boolean {
  const mayRead = () => decideDelivery(username, topic);
  const mayWrite = () => decideTopic(username, { action: 'publish', topic });
  switch (access) {
    case 1:
      return mayRead();
    case 2:
      return mayWrite();
    case 3:
      return mayRead() && mayWrite();
    case 4:
      return decideTopic(username, { action: 'subscribe', topic });
  }
}

function allow(c: Context) {
  return c.json({ ok: true, error: '' });
}

function refuse(c: Context, error: string) {
  return c.json({ ok: false, error }, 403);
}
