// EMQX 5: HTTP authenticator with the rights in its answer (5.8 and later), HTTP authorizer (before), client events from
// rules or webhooks. The local broker speaks the same. EMQX takes any status but 200 for "ignore", so a refusal is a
// 200 that says deny.
import { wireErrorOf } from '../../domain/refusal.ts';
import { createRouter } from '../../http/router.ts';
import { contextOf } from '../../http/service-context.ts';
import { emqxAuthzSchema, emqxConnectSchema, emqxEventSchema } from '../../protocol/hooks-emqx.ts';
import { decideConnect, decideTopic, reportConnection } from '../../services/messaging-auth.ts';
import { aclOf } from '../../services/emqx-acl.ts';
import { readFields } from './read-fields.ts';

export const emqxHookRoutes = createRouter();

emqxHookRoutes.post('/connect', async (c) => {
  const request = emqxConnectSchema.safeParse(await readFields(c));
  // Without a username or password there is nothing to check: refused like a wrong one.
  if (!request.success) return c.json({ result: 'deny', is_superuser: false, message: 'invalid_password' });
  const { clientid: clientId, username, password } = request.data;
  const decision = await decideConnect(contextOf(c), { clientId, username, password });
  if (!decision.ok) {
    const { message } = wireErrorOf(decision.refusal);
    return c.json({ result: 'deny', is_superuser: false, message });
  }
  return c.json({ result: 'allow', is_superuser: false, acl: aclOf(decision.value) });
});

emqxHookRoutes.post('/authz', async (c) => {
  const request = emqxAuthzSchema.safeParse(await readFields(c));
  if (!request.success) return c.json({ result: 'deny' });
  const { username, action, topic, retain } = request.data;
  const isRetained = retain === true || retain === 'true' || retain === '1';
  return c.json({ result: decideTopic(username, { action, topic, isRetained }) ? 'allow' : 'deny' });
});

emqxHookRoutes.post('/events', async (c) => {
  const event = emqxEventSchema.safeParse(await readFields(c));
  // Brokers send more kinds of events than are asked for here; answering them with an error would have them repeated.
  if (!event.success) return c.body(null, 204);
  const { data } = event;
  await reportConnection(
    contextOf(c),
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
