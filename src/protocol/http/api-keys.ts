// Requests and answers of API keys (contract 2.3, 4.1). Shapes only.
import { z } from '@hono/zod-openapi';
import {
  deviceIdSchema,
  distinctSchema,
  instantSchema,
  lineSchema,
  objectPageSchema,
  objectSchema,
  strictSchema,
} from './common.ts';
import { keyScopes } from '../vocabulary.ts';

export const keyIdSchema = z.string().openapi({ example: 'ak_4fTq9ZbXw2LmVs7RkPyD' });
const descriptionSchema = lineSchema(0, 200).openapi({ example: 'Building automation' });

const scopesSchema = z
  .array(z.enum(keyScopes))
  .min(1)
  .max(8)
  .openapi({ description: 'Each route names the scopes of which it needs one.', example: ['read'] });
/** A key travels with each of its calls. */
const maxDevicesOfKey = 50;
const productKeySchema = z.string().openapi({ description: 'The one product that it is for.' });

export const apiKeyBodySchema = strictSchema('ApiKeyRequest', {
  description: descriptionSchema.default(''),
  scopes: scopesSchema.optional(),
  productKey: productKeySchema.nullish(),
  deviceIds: distinctSchema(deviceIdSchema, 1, maxDevicesOfKey).nullish().openapi({
    description: 'The devices that it is for, own or shared ones. Such a key has not `manage`.',
  }),
});
export type ApiKeyBody = z.infer<typeof apiKeyBodySchema>;

const limitedTo = {
  scopes: z.array(z.enum(keyScopes)),
  productKey: productKeySchema.nullable(),
  deviceIds: z.array(deviceIdSchema).nullable(),
};

export const createdApiKeySchema = z
  .object({
    keyId: keyIdSchema,
    apiKey: z.string().openapi({ description: 'Shown this once.', example: 'sk_h8Jw3cNq0TzYbVx6LmRfKs2P' }),
    description: z.string(),
    ...z.object(limitedTo).partial().shape,
  })
  .openapi('CreatedApiKey', { description: 'Scopes, product and devices only if the request had one of them.' });

export const apiKeyPageSchema = objectPageSchema('ApiKey', {
  keyId: keyIdSchema,
  description: z.string(),
  ...limitedTo,
  createdAt: instantSchema,
  lastUsedAt: instantSchema.nullable().openapi({ description: 'To the minute; null before the first use.' }),
});

export const deletedApiKeySchema = objectSchema('DeletedApiKey', { keyId: keyIdSchema });
