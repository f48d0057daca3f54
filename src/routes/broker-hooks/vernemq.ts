// VerneMQ webhooks, for MQTT 3 and 5 (`_m5`). The secret travels in the path. Any status but 200 is logged by VerneMQ
// as a failure and refuses what was asked.
import type { Context } from 'hono';
import { createRouter } from '../../http/router.ts';
import { contextOf } from '../../http/service-context.ts';
import {
  vernemqPublishSchema,
  vernemqRegisterSchema,
  vernemqSessionSchema,
  vernemqSubscribeSchema,
} from '../../protocol/hooks-vernemq.ts';
import { decideConnect, decideTopic, reportConnection } from '../../services/messaging-auth.ts';
import { readFields } from './read-fields.ts';

export const vernemqHookRoutes = createRouter();

/** The QoS that stands for a refusal in SUBACK: MQTT 3.1.1 has one code, MQTT 5 one for "not authorized". */
const refusedQos = { mqtt3: 128, mqtt5: 135 } as const;

vernemqHookRoutes.on('POST', ['/auth_on_register', '/auth_on_register_m5'], async (c) => {
  const request = vernemqRegisterSchema.safeParse(await readFields(c));
  if (!request.success) return refuse(c);
  const { client_id: clientId, username, password } = request.data;
  return (await decideConnect(contextOf(c), { clientId, username, password })).ok ? allow(c) : refuse(c);
});

vernemqHookRoutes.on('POST', ['/auth_on_publish', '/auth_on_publish_m5'], async (c) => {
  const request = vernemqPublishSchema.safeParse(await readFields(c));
  if (!request.success) return refuse(c);
  const { username, topic, retain: isRetained } = request.data;
  return decideTopic(username, { action: 'publish', topic, isRetained }) ? allowForAWhile(c) : refuse(c);
});

/** Filters are judged one by one: a wrong one beside a right one costs only itself. */
vernemqHookRoutes.on('POST', ['/auth_on_subscribe', '/auth_on_subscribe_m5'], async (c) => {
  const request = vernemqSubscribeSchema.safeParse(await readFields(c));
  if (!request.success) return refuse(c);
  const { username, topics } = request.data;
  const isMqtt5 = c.req.path.endsWith('_m5');
  const granted = topics.map(({ topic, qos }) => {
    const isAllowed = decideTopic(username, { action: 'subscribe', topic });
    return { topic, qos: isAllowed ? qos : isMqtt5 ? refusedQos.mqtt5 : refusedQos.mqtt3 };
  });
  const refusals = granted.filter(({ qos }, index) => qos !== topics[index]?.qos).length;
  if (refusals === 0) return allowForAWhile(c);
  if (refusals === topics.length) return refuse(c);
  return c.json(isMqtt5 ? { result: 'ok', modifiers: { topics: granted } } : { result: 'ok', topics: granted });
});

vernemqHookRoutes.post('/on_client_wakeup', async (c) => {
  const session = vernemqSessionSchema.safeParse(await readFields(c));
  const event = { kind: 'connected' as const, sessionStartedAtMs: Date.now() };
  if (session.success) await reportConnection(contextOf(c), session.data.client_id, event);
  return c.json({});
});

vernemqHookRoutes.on('POST', ['/on_client_offline', '/on_client_gone'], async (c) => {
  const session = vernemqSessionSchema.safeParse(await readFields(c));
  const event = { kind: 'disconnected' as const, sessionStartedAtMs: null, endedAtMs: Date.now(), reason: 'unknown' };
  if (session.success) await reportConnection(contextOf(c), session.data.client_id, event);
  return c.json({});
});

function allow(c: Context) {
  return c.json({ result: 'ok' });
}

/** Topic rights follow from the name alone and never change, so VerneMQ need not ask at every message. */
function allowForAWhile(c: Context) {
  c.header('Cache-Control', 'max-age=600');
  return allow(c);
}

function refuse(c: Context) {
  return c.json({ result: { error: 'not_allowed' } });
}
