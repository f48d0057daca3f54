// Requests of VerneMQ's webhooks for MQTT 3 and 5: the members that are read here. Shapes only.
import { z } from 'zod';

const nameSchema = z.string().max(512);
const topicSchema = z.string().max(65_535);

export const vernemqRegisterSchema = z.object({
  client_id: nameSchema,
  username: nameSchema,
  password: nameSchema,
  /** Only for the events of the device: a login is never refused for it. */
  peer_addr: z.string().max(64).optional().catch(undefined),
});

export const vernemqPublishSchema = z.object({ username: nameSchema, topic: topicSchema, retain: z.boolean() });

export const vernemqSubscribeSchema = z.object({
  username: nameSchema,
  topics: z.array(z.object({ topic: topicSchema, qos: z.int() })).min(1),
});

/** on_client_wakeup, on_client_offline, on_client_gone. They carry no time. */
export const vernemqSessionSchema = z.object({ client_id: nameSchema });
