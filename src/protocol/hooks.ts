// Requests of the brokers' hooks: the members that are read here. Shapes only.
import { z } from 'zod';

const nameSchema = z.string().max(512);
const topicSchema = z.string().max(65_535);
const addressSchema = z.string().max(64).optional().catch(undefined);

// EMQX 5's HTTP authenticator, HTTP authorizer and rules (or webhooks) on client events.

export const emqxConnectSchema = z.object({
  clientid: nameSchema,
  username: nameSchema,
  password: nameSchema,
  peerhost: addressSchema,
});

export const emqxAuthzSchema = z.object({
  username: nameSchema,
  topic: topicSchema,
  action: z.enum(['publish', 'subscribe']),
  /** Text from a body template. All but these values count as no: some versions leave the placeholder in. */
  retain: z
    .unknown()
    .optional()
    .transform((value) => value === true || value === 'true' || value === '1'),
});

/** Milliseconds, as a number or, from a body template with quotes, as text. */
const timeSchema = z.coerce.number().pipe(z.int().positive());

export const emqxEventSchema = z.discriminatedUnion('event', [
  z.object({ event: z.literal('client.connected'), clientid: nameSchema, connected_at: timeSchema }),
  z.object({
    event: z.literal('client.disconnected'),
    clientid: nameSchema,
    /** Tells which session ended. Versions that do not know send the template's placeholder, some other text. */
    connected_at: z.union([timeSchema, z.unknown().transform(() => undefined)]).optional(),
    disconnected_at: timeSchema,
    reason: z.string().max(256).default('unknown'),
  }),
]);

// RabbitMQ's rabbitmq_auth_backend_http, form-encoded, as its MQTT plugin causes them.

export const rabbitmqUserSchema = z.object({
  username: nameSchema,
  password: nameSchema,
  client_id: nameSchema,
});

export const rabbitmqVhostSchema = z.object({ username: nameSchema });

export const rabbitmqResourceSchema = z.object({
  username: nameSchema,
  resource: z.enum(['queue', 'exchange']),
  name: nameSchema,
  permission: z.enum(['configure', 'write', 'read']),
});

export const rabbitmqTopicSchema = z.object({
  username: nameSchema,
  name: nameSchema,
  permission: z.enum(['write', 'read']),
  /** The MQTT topic or filter with `.` for `/` and `*` for `+`. */
  routing_key: topicSchema,
});
