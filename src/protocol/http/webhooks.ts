// Requests and answers of webhooks. Shapes only.
import { z } from '@hono/zod-openapi';
import { eventTypes, webhookEnds, webhookProblems } from '../vocabulary.ts';
import { deviceIdSchema, instantSchema, objectPageSchema, objectSchema, strictSchema, textSchema } from './common.ts';

const webhookIdSchema = z.string().openapi({ example: '3h5k7m9p2q4r6s8t' });
const secretSchema = z
  .string()
  .openapi({ description: 'Shown this once.', example: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' });

const urlText = 'HTTPS, port 443 or 8443, a public host name. It has to answer `endpoint.challenge`.';
const fields = {
  url: textSchema(1, 2_000).openapi({ description: urlText, example: 'https://maker.example/latchwork' }),
  types: z
    .array(z.enum(eventTypes))
    .min(1)
    .max(20)
    .openapi({ example: ['device.online', 'device.offline'] }),
  productKey: z.string().nullable().openapi({ description: 'Null: of every product.', example: null }),
  deviceIds: z
    .array(deviceIdSchema)
    .min(1)
    .max(100)
    .nullable()
    .openapi({ description: 'Null: of every device that you may read.', example: null }),
};

export const webhookBodySchema = strictSchema('WebhookRequest', {
  ...fields,
  productKey: fields.productKey.default(null),
  deviceIds: fields.deviceIds.default(null),
});
export type WebhookBody = z.infer<typeof webhookBodySchema>;

export const webhookChangeSchema = z.strictObject(fields).partial().openapi('WebhookChange');
export type WebhookChange = z.infer<typeof webhookChangeSchema>;

const members = {
  webhookId: webhookIdSchema,
  ...fields,
  disabledBecause: z.enum(webhookEnds).nullable().openapi({
    description: '`receiver_gone`: it answered 410; `failed_for_days`: five. A PATCH enables the webhook again.',
    example: null,
  }),
  createdAt: instantSchema,
};

export const webhookSchema = objectSchema('Webhook', members);
export const webhookPageSchema = objectPageSchema('ListedWebhook', members);
export const createdWebhookSchema = objectSchema('CreatedWebhook', { ...members, secret: secretSchema });
export const webhookSecretSchema = objectSchema('WebhookSecret', { webhookId: webhookIdSchema, secret: secretSchema });
export const deletedWebhookSchema = objectSchema('DeletedWebhook', { webhookId: webhookIdSchema });

const attempt = {
  messageId: z.string().openapi({ description: 'The header `webhook-id`.', example: 'msg_dev_8k2m4n6p_17' }),
  at: instantSchema,
  status: z.int().nullable().openapi({ description: 'Null: no answer came.', example: 200 }),
  problem: z.enum(webhookProblems).nullable().openapi({ description: 'Why no answer came.', example: null }),
  tookMs: z.int().min(0).openapi({ example: 87 }),
};

export const webhookTestSchema = objectSchema('WebhookTest', {
  ...attempt,
  signed: z.string().openapi({ description: 'The exact text that is signed: id, timestamp and body.' }),
  signature: z.string().openapi({ description: 'The header `webhook-signature`.' }),
});

export const deliveryPageSchema = objectPageSchema('WebhookDelivery', {
  ...attempt,
  deviceId: deviceIdSchema,
  type: z.string().openapi({ description: 'Of the event, or `gap`.', example: 'device.online' }),
});

export const redeliveryBodySchema = strictSchema('RedeliveryRequest', {
  deviceId: deviceIdSchema,
  from: z.int().min(1).openapi({ description: 'The number of the first event.', example: 17 }),
});
export type RedeliveryBody = z.infer<typeof redeliveryBodySchema>;

export const redeliverySchema = objectSchema('Redelivery', {
  webhookId: webhookIdSchema,
  ...redeliveryBodySchema.shape,
});
