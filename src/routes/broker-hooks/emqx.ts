// EMQX 5: HTTP authenticator with the rights in its answer (5.8 and later), HTTP authorizer (before), client events from
// rules or webhooks. The local broker speaks the same. EMQX takes any status but 200 for "ignore", so a refusal is a
// 200 that says deny. Checked against EMQX's source, 5.4.1, 5.7.2 and 5.8.9; never run.
import type { Context } from 'hono';
import { RefusedError, wireErrorOf, type Refusal } from '../../domain/refusal.ts';
import { type AppEnv, createRouter, validJson } from '../../http/router.ts';
import { noteRefusal } from '../../http/request-log.ts';
import type { TopicRight } from '../../domain/topic-rights.ts';
import { describeError, log } from '../../log.ts';
import { emqxAuthzSchema, emqxConnectSchema, emqxEventSchema } from '../../protocol/hooks.ts';
import { decideConnect, decideTopic, reportConnection } from '../../services/broker/messaging-auth.ts';

export const emqxHookRoutes = createRouter();

emqxHookRoutes.post('/connect', validJson(emqxConnectSchema, denyLogin), async (c) => {
  const { clientid: clientId, username, password, peerhost: peer } = c.req.valid('json');
  const decision = await decideConnect(c.var.context, { clientId, username, password, peer });
  if (!decision.ok) return denyLogin(c, decision.refusal);
  return c.json({ result: 'allow', is_superuser: false, acl: aclOf(decision.value) });
});

emqxHookRoutes.post('/authz', validJson(emqxAuthzSchema, deny), (c) => {
  const { username, action, topic, retain: isRetained } = c.req.valid('json');
  const refusal = decideTopic(c.var.context, username, { action, topic, isRetained });
  return refusal === undefined ? c.json({ result: 'allow' }) : deny(c, refusal);
});

// Brokers send more kinds of events than are needed here.
const ignore = (c: Context) => c.body(null, 204);

/** From 5.7 on EMQX repeats an event that was answered with 503; after any other error it drops it. */
emqxHookRoutes.post('/events', validJson(emqxEventSchema, ignore), async (c) => {
  const event = c.req.valid('json');
  try {
    await reportConnection(
      c.var.context,
      event.clientid,
      event.event === 'client.connected'
        ? { kind: 'connected', sessionStartedAtMs: event.connected_at }
        : {
            kind: 'disconnected',
            sessionStartedAtMs: event.connected_at ?? null,
            endedAtMs: event.disconnected_at,
            reason: event.reason,
          },
    );
  } catch (error) {
    const refusal: Refusal = error instanceof RefusedError ? error.refusal : { kind: 'internal_error' };
    log('error', 'event of the broker not taken', { requestId: c.var.requestId, refusal, ...describeError(error) });
    return c.body(null, 503);
  }
  return c.body(null, 204);
});

function denyLogin(c: Context<AppEnv>, refusal: Refusal) {
  noteRefusal(c, refusal);
  // Without a username or password there is nothing to check: the device is answered like one with a wrong password.
  const message = refusal.kind === 'invalid_input' ? 'invalid_password' : wireErrorOf(refusal).message;
  return c.json({ result: 'deny', is_superuser: false, message });
}

function deny(c: Context<AppEnv>, refusal: Refusal) {
  noteRefusal(c, refusal);
  return c.json({ result: 'deny' });
}

/** The first matching rule decides. Without the last one, EMQX asks its other authorizers, whose default is to allow. */
export function aclOf(rights: readonly TopicRight[]) {
  return [...rights.map(ruleOf), { permission: 'deny', action: 'all', topic: '#' }];
}

function ruleOf({ action, topic, isExact, mayRetain }: TopicRight) {
  // `eq` matches the text literally. Without it a filter with `+` would also admit one with `#`.
  const rule = { permission: 'allow', action, topic: isExact ? `eq ${topic}` : topic };
  return action === 'publish' && !mayRetain ? { ...rule, retain: false } : rule;
}
