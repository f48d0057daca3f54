// RabbitMQ with rabbitmq_mqtt and rabbitmq_auth_backend_http: the bare words `allow` and `deny`. A login without a
// client id is not an MQTT login and is refused: over AMQP nobody could tell whose session it takes. Run by the tests with
// Debian's RabbitMQ 3.10.8.
import type { Context } from 'hono';
import type { Refusal } from '../../domain/refusal.ts';
import { bridgeName, isBridgeClientId } from '../../domain/topic-rights.ts';
import { type AppEnv, createRouter, validJson } from '../../http/router.ts';
import { noteRefusal } from '../../http/request-log.ts';
import * as schemas from '../../protocol/hooks.ts';
import { decideConnect, decideTopic, rightsOfUser } from '../../services/broker/messaging-auth.ts';

export const rabbitmqHookRoutes = createRouter();

/** The exchange that the MQTT plugin uses by default. */
const exchange = 'amq.topic';
const methods = ['GET', 'POST'];

rabbitmqHookRoutes.on(methods, '/user', validJson(schemas.rabbitmqUserSchema, deny), async (c) => {
  const { username, password, client_id: clientId } = c.req.valid('json');
  const decision = await decideConnect(c.var.context, { clientId, username, password });
  return decision.ok ? c.text('allow') : deny(c, decision.refusal);
});

/** Any virtual host: what may be done in it is asked for each queue and topic. */
rabbitmqHookRoutes.on(methods, '/vhost', validJson(schemas.rabbitmqVhostSchema, deny), (c) => {
  const { username } = c.req.valid('json');
  return rightsOfUser(username) === undefined ? deny(c, unknownName(username)) : c.text('allow');
});

rabbitmqHookRoutes.on(methods, '/resource', validJson(schemas.rabbitmqResourceSchema, deny), (c) => {
  const { username, resource, name, permission } = c.req.valid('json');
  if (rightsOfUser(username) === undefined) return deny(c, unknownName(username));
  const isAllowed =
    resource === 'exchange' ? name === exchange && permission !== 'configure' : isQueueOf(username, name);
  return isAllowed ? c.text('allow') : deny(c, { kind: 'resource_forbidden', resource, name, permission });
});

rabbitmqHookRoutes.on(methods, '/topic', validJson(schemas.rabbitmqTopicSchema, deny), (c) => {
  const { username, name, permission, routing_key: routingKey } = c.req.valid('json');
  if (name !== exchange) return deny(c, { kind: 'resource_forbidden', resource: 'exchange', name, permission });
  const action = permission === 'write' ? 'publish' : 'subscribe';
  const topic = topicOf(routingKey);
  const refusal: Refusal | undefined =
    topic === undefined
      ? { kind: 'topic_forbidden', action, topic: routingKey }
      : decideTopic(c.var.context, username, { action, topic });
  return refusal === undefined ? c.text('allow') : deny(c, refusal);
});

/** The plugin names a client's queues after its client id, which for a device is its username. */
function isQueueOf(username: string, queue: string): boolean {
  const clientId = /^mqtt-(?:subscription-(.+)qos[01]|will-(.+))$/.exec(queue)?.slice(1).join('');
  if (clientId === undefined) return false;
  return username === bridgeName ? isBridgeClientId(clientId) : clientId === username;
}

/** The MQTT topic of a routing key. Dots inside a level have become separators; RabbitMQ's own routing does the same. */
function topicOf(routingKey: string): string | undefined {
  if (routingKey.includes('/')) return undefined;
  const words = routingKey.split('.').map((word) => (word === '*' ? '+' : word));
  return words.join('/');
}

function unknownName(username: string): Refusal {
  return { kind: 'not_found', what: 'device', id: username };
}

function deny(c: Context<AppEnv>, refusal: Refusal) {
  noteRefusal(c, refusal);
  return c.text('deny');
}
