// VerneMQ webhooks, for MQTT 3 and 5 (`_m5`). The secret travels in the path. Any status but 200 is logged by VerneMQ
// as a failure and refuses what was asked. Experimental: checked against recorded exchanges, never against a real
// VerneMQ.
import type { Context } from 'hono';
import type { Refusal } from '../../domain/refusal.ts';
import type { AppEnv } from '../../http/app-env.ts';
import { noteRefusal } from '../../http/request-log.ts';
import { createRouter, validJson } from '../../http/router.ts';
import {
  vernemqPublishSchema,
  vernemqRegisterSchema,
  vernemqSessionSchema,
  vernemqSubscribeSchema,
} from '../../protocol/hooks.ts';
import { decideConnect, refuseTopic, reportConnection } from '../../services/messaging-auth.ts';

export const vernemqHookRoutes = createRouter();

/** The QoS that stands for a refusal in SUBACK: MQTT 3.1.1 has one code, MQTT 5 one for "not authorized". */
const refusedQos = { mqtt3: 128, mqtt5: 135 } as const;
const both = (hook: string) => [`/${hook}`, `/${hook}_m5`];
const sessionEnds = ['/on_client_offline', '/on_client_gone'];

vernemqHookRoutes.on('POST', both('auth_on_register'), validJson(vernemqRegisterSchema, deny), async (c) => {
  const { client_id: clientId, username, password, peer_addr: peer } = c.req.valid('json');
  const decision = await decideConnect(c.var.context, { clientId, username, password, peer });
  return decision.ok ? allow(c) : deny(c, decision.refusal);
});

vernemqHookRoutes.on('POST', both('auth_on_publish'), validJson(vernemqPublishSchema, deny), (c) => {
  const { username, topic, retain: isRetained } = c.req.valid('json');
  const refusal = refuseTopic(username, { action: 'publish', topic, isRetained });
  return refusal === undefined ? allowForAWhile(c) : deny(c, refusal);
});

/** Filters are judged one by one: a wrong one does not cost the client the others. */
vernemqHookRoutes.on('POST', both('auth_on_subscribe'), validJson(vernemqSubscribeSchema, deny), (c) => {
  const { username, topics } = c.req.valid('json');
  const isMqtt5 = c.req.path.endsWith('_m5');
  let refusals = 0;
  const granted = topics.map(({ topic, qos }) => {
    const refusal = refuseTopic(username, { action: 'subscribe', topic });
    if (refusal === undefined) return { topic, qos };
    refusals += 1;
    noteRefusal(c, refusal);
    return { topic, qos: isMqtt5 ? refusedQos.mqtt5 : refusedQos.mqtt3 };
  });
  if (refusals === 0) return allowForAWhile(c);
  if (refusals === topics.length) return c.json(notAllowed);
  return c.json(isMqtt5 ? { result: 'ok', modifiers: { topics: granted } } : { result: 'ok', topics: granted });
});

vernemqHookRoutes.post('/on_client_wakeup', validJson(vernemqSessionSchema, ignore), (c) =>
  report(c, c.req.valid('json').client_id, { kind: 'connected', sessionStartedAtMs: Date.now() }),
);

vernemqHookRoutes.on('POST', sessionEnds, validJson(vernemqSessionSchema, ignore), (c) => {
  const endedAtMs = Date.now();
  const event = { kind: 'disconnected' as const, sessionStartedAtMs: null, endedAtMs, reason: 'unknown' };
  return report(c, c.req.valid('json').client_id, event);
});

async function report(c: Context<AppEnv>, clientId: string, event: Parameters<typeof reportConnection>[2]) {
  await reportConnection(c.var.context, clientId, event);
  return c.json({});
}

function ignore(c: Context) {
  return c.json({});
}

function allow(c: Context) {
  return c.json({ result: 'ok' });
}

/** Topic rights follow from the name alone and never change, so VerneMQ need not ask at every message. */
function allowForAWhile(c: Context) {
  c.header('Cache-Control', 'max-age=600');
  return allow(c);
}

const notAllowed = { result: { error: 'not_allowed' } };

function deny(c: Context<AppEnv>, refusal: Refusal) {
  noteRefusal(c, refusal);
  return c.json(notAllowed);
}
