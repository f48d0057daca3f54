// Requests of RabbitMQ's rabbitmq_auth_backend_http, form-encoded, as its MQTT plugin causes them. Shapes only.
import { z } from 'zod';

const nameSchema = z.string().max(512);

export const rabbitmqUserSchema = z.object({
  username: nameSchema,
  password: nameSchema,
  /** Sent for MQTT logins alone. */
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
  /** The exchange. */
  name: nameSchema,
  /** `write` publishes, `read` subscribes. */
  permission: z.enum(['write', 'read']),
  /** The MQTT topic or filter with `.` for `/` and `*` for `+`. */
  routing_key: z.string().max(65_535),
});
