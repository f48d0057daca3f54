// VerneMQ webhooks, for MQTT 3 and 5 (`_m5`). The secret travels in the path. Any status but 200 is logged by VerneMQ
// as a failure and refuses what was asked. Checked against VerneMQ's source, 1.10.0, 2.1.2 and 2.2.0; never run.
import type { Context } from 'hono';
import type { z } from 'zod';
import type { Refusal } from '../../domain/refusal.ts';
import { type AppEnv, createRouter, validJson } from '../../http/router.ts';
import { noteRefusal } from '../../http/request-log.ts';
import * as schemas from '../../protocol/hooks.ts';
import { decideConnect, decideTopic, refuseTopic, reportConnection } from '../../services/broker/messaging-auth.ts';

export const vernemqHookRoutes = createRouter();

/** The QoS that stands for a refusal in MQTT 3's SUBACK. */
const refusedQos = 128;
const both = (hook: string) => [`/${hook}`, `/${hook}_m5`];
const sessionEnds = ['/on_client_offline', '/on_client_gone'];

vernemqHookRoutes.on('POST', both('auth_on_register'), validJson(schemas.vernemqRegisterSchema, deny), async (c) => {
  const { client_id: clientId, username, password, peer_addr: peer } = c.req.valid('json');
  const decision = await decideConnect(c.var.context, { clientId, username, password, peer });
  return decision.ok ? allow(c) : deny(c, decision.refusal);
});

vernemqHookRoutes.on('POST', both('auth_on_publish'), validJson(schemas.vernemqPublishSchema, deny), (c) => {
  const { username, topic, retain: isRetained } = c.req.valid('json');
  const refusal = decideTopic(c.var.context, username, { action: 'publish', topic, isRetained });
  if (refusal !== undefined) return deny(c, refusal);
  // Topic rights follow from the name alone, so VerneMQ need not ask at every message. With MQTT 5 it must: its cache has
  // no bound, and its key holds the message's properties, which a client makes up.
  if (!c.req.path.endsWith('_m5')) c.header('Cache-Control', 'max-age=600');
  return allow(c);
});

/** MQTT 3: filters are judged one by one, so that a wrong one does not cost the client the others. */
vernemqHookRoutes.post('/auth_on_subscribe', validJson(schemas.vernemqSubscribeSchema, deny), (c) => {
  const { topics } = c.req.valid('json');
  const refusals = refuseFilters(c.req.valid('json'));
  for (const refusal of refusals) if (refusal !== undefined) noteRefusal(c, refusal);
  if (refusals.every((refusal) => refusal === undefined)) return allow(c);
  if (refusals.every((refusal) => refusal !== undefined)) return c.json(notAllowed);
  const granted = topics.map(({ topic, qos }, index) => ({
    topic,
    qos: refusals[index] === undefined ? qos : refusedQos,
  }));
  return c.json({ result: 'ok', topics: granted });
});

/**
 * MQTT 5: one refused filter refuses the packet. Up to 2.1 VerneMQ takes the code 135 of a single one for a QoS and
 * subscribes it; the code 128 ends the session; and a list of grants resets their options.
 */
vernemqHookRoutes.post('/auth_on_subscribe_m5', validJson(schemas.vernemqSubscribeSchema, deny), (c) => {
  const refusals = refuseFilters(c.req.valid('json')).filter((refusal) => refusal !== undefined);
  if (refusals.length === 0) return allow(c);
  for (const refusal of refusals) noteRefusal(c, refusal);
  return c.json(notAllowed);
});

vernemqHookRoutes.post('/on_client_wakeup', validJson(schemas.vernemqSessionSchema, ignore), (c) =>
  report(c, c.req.valid('json').client_id, { kind: 'connected', sessionStartedAtMs: Date.now() }),
);

vernemqHookRoutes.on('POST', sessionEnds, validJson(schemas.vernemqSessionSchema, ignore), (c) => {
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

function refuseFilters({ username, topics }: z.output<typeof schemas.vernemqSubscribeSchema>): (Refusal | undefined)[] {
  return topics.map(({ topic }) => refuseTopic(username, { action: 'subscribe', topic }));
}

const notAllowed = { result: { error: 'not_allowed' } };

function deny(c: Context<AppEnv>, refusal: Refusal) {
  noteRefusal(c, refusal);
  return c.json(notAllowed);
}
