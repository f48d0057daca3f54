// EMQX 5.8 and later: HTTP authenticator with the rights in its answer, and client webhooks. The local broker speaks
// the same. EMQX takes any status but 200 for "ignore", so a refusal is a 200 that says deny.
import { createRouter } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { emqxConnectSchema, emqxEventSchema } from '../../protocol/hooks-emqx.ts';
import { decideConnect, reportConnection, type TopicRight } from '../../services/messaging-auth.ts';

export const emqxHookRoutes = createRouter();

emqxHookRoutes.use(requireSecret('brokerHookSecrets'));

emqxHookRoutes.post('/connect', async (c) => {
  const request = emqxConnectSchema.safeParse(await readJson(c.req.raw));
  // Without a username or password there is nothing to check: refused like a wrong one.
  if (!request.success) return c.json({ result: 'deny', is_superuser: false, message: 'invalid_password' });
  const { clientid: clientId, username, password } = request.data;
  const decision = await decideConnect({ env: c.env, config: c.var.config }, { clientId, username, password });
  if (!decision.isAllowed) return c.json({ result: 'deny', is_superuser: false, message: decision.reason });
  return c.json({ result: 'allow', is_superuser: false, acl: [...decision.rights.map(ruleOf), denyTheRest] });
});

emqxHookRoutes.post('/events', async (c) => {
  const event = emqxEventSchema.safeParse(await readJson(c.req.raw));
  // Brokers send more kinds of events than are asked for here; answering them with an error would have them repeated.
  if (!event.success) return c.body(null, 204);
  const context = { env: c.env, config: c.var.config };
  const { data } = event;
  await reportConnection(
    context,
    data.clientid,
    data.event === 'client.connected'
      ? { kind: 'connected', sessionStartedAtMs: data.connected_at }
      : {
          kind: 'disconnected',
          sessionStartedAtMs: data.connected_at ?? null,
          endedAtMs: data.disconnected_at,
          reason: data.reason,
        },
  );
  return c.body(null, 204);
});

const denyTheRest = { permission: 'deny', action: 'all', topic: '#' };

function ruleOf({ action, topic, isExact, mayRetain }: TopicRight) {
  const rule = { permission: 'allow', action, topic: isExact ? `eq ${topic}` : topic };
  return action === 'publish' && !mayRetain ? { ...rule, retain: false } : rule;
}

async function readJson(request: Request): Promise<unknown> {
  try {
    return await request.json();
  } catch {
    return undefined;
  }
}
