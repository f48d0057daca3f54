// RabbitMQ with rabbitmq_mqtt and rabbitmq_auth_backend_http: the bare words `allow` and `deny`. A login without a
// client id is not an MQTT login and is refused: over AMQP nobody could tell whose session it takes.
import type { Context } from 'hono';
import { createRouter } from '../../http/router.ts';
import { contextOf } from '../../http/service-context.ts';
import {
  rabbitmqResourceSchema,
  rabbitmqTopicSchema,
  rabbitmqUserSchema,
  rabbitmqVhostSchema,
} from '../../protocol/hooks-rabbitmq.ts';
import { decideConnect, decideTopic, rightsOfUser } from '../../services/messaging-auth.ts';
import { readFields } from './read-fields.ts';

export const rabbitmqHookRoutes = createRouter();

/** Where the MQTT plugin publishes and binds unless it is configured otherwise. */
const exchange = 'amq.topic';
const methods = ['GET', 'POST'];

rabbitmqHookRoutes.on(methods, '/user', async (c) => {
  const request = rabbitmqUserSchema.safeParse(await readFields(c));
  if (!request.success) return say(c, false);
  const { username, password, client_id: clientId } = request.data;
  return say(c, (await decideConnect(contextOf(c), { clientId, username, password })).ok);
});

/** Any virtual host: what may be done in it is asked for each queue and topic. */
rabbitmqHookRoutes.on(methods, '/vhost', async (c) => {
  const request = rabbitmqVhostSchema.safeParse(await readFields(c));
  return say(c, request.success && rightsOfUser(request.data.username) !== undefined);
});

rabbitmqHookRoutes.on(methods, '/resource', async (c) => {
  const request = rabbitmqResourceSchema.safeParse(await readFields(c));
  if (!request.success) return say(c, false);
  const { username, resource, name, permission } = request.data;
  if (rightsOfUser(username) === undefined) return say(c, false);
  if (resource === 'exchange') return say(c, name === exchange && permission !== 'configure');
  // Username and client id are one and the same; the plugin names a client's queues after the latter.
  const queues = [`mqtt-subscription-${username}qos0`, `mqtt-subscription-${username}qos1`, `mqtt-will-${username}`];
  return say(c, queues.includes(name));
});

rabbitmqHookRoutes.on(methods, '/topic', async (c) => {
  const request = rabbitmqTopicSchema.safeParse(await readFields(c));
  if (!request.success || request.data.name !== exchange) return say(c, false);
  const { username, permission, routing_key: routingKey } = request.data;
  const topic = topicOf(routingKey);
  if (topic === undefined) return say(c, false);
  return say(c, decideTopic(username, { action: permission === 'write' ? 'publish' : 'subscribe', topic }));
});

/** What MQTT clients call a routing key. A level's own dots have become separators, for RabbitMQ's routing as well. */
function topicOf(routingKey: string): string | undefined {
  if (routingKey.includes('/')) return undefined;
  const words = routingKey.split('.').map((word) => (word === '*' ? '+' : word));
  return words.join('/');
}

function say(c: Context, isAllowed: boolean) {
  return c.text(isAllowed ? 'allow' : 'deny');
}
