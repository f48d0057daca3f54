// What stands in the paths of routes, by its name there. Any text, because what has not the form of an id is not found.
import { z } from '@hono/zod-openapi';
import { anyProductKeySchema, deviceIdSchema, deviceSNSchema, shortIdSchema } from './common.ts';
import { keyIdSchema, sessionIdSchema } from './users.ts';

export const pathSchemas = {
  bulkId: shortIdSchema,
  campaignId: shortIdSchema,
  change: z.enum(['pause', 'resume', 'stop']).openapi({ example: 'pause' }),
  commandId: shortIdSchema,
  deviceId: deviceIdSchema,
  deviceSN: deviceSNSchema,
  groupId: shortIdSchema,
  invitationId: shortIdSchema,
  firmwareKeyId: shortIdSchema,
  keyId: keyIdSchema,
  linkId: shortIdSchema,
  productKey: anyProductKeySchema,
  sceneId: shortIdSchema,
  scheduleId: shortIdSchema,
  sessionId: sessionIdSchema,
  subscriptionId: shortIdSchema,
  token: z.string().openapi({ example: '7h3k9m2p5q8r4s6t1v0w' }),
  version: z.string().openapi({ example: '1.2.0' }),
  /** NaN for what is no id: nobody has it. */
  userId: z
    .string()
    .transform((text) => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : Number.NaN))
    .openapi({ example: '42' }),
  webhookId: shortIdSchema,
};
