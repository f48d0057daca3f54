// Requests and answers of API keys (contract 2.3, 4.1). Shapes only.
import { z } from '@hono/zod-openapi';
import { instantSchema, lineSchema, pageSchema } from './http.ts';

const keyIdSchema = z.string().openapi({ example: 'ak_4fTq9ZbXw2LmVs7RkPyD' });
const descriptionSchema = lineSchema(0, 200).openapi({ example: 'Building automation' });

export const apiKeyBodySchema = z.object({ description: descriptionSchema.default('') }).openapi('ApiKeyRequest');

export const createdApiKeySchema = z
  .object({
    keyId: keyIdSchema,
    apiKey: z
      .string()
      .openapi({ description: 'The value, shown this once.', example: 'sk_h8Jw3cNq0TzYbVx6LmRfKs2PdGa5EuXo9iQtHyWn' }),
    description: z.string(),
  })
  .openapi('CreatedApiKey');

export const apiKeyPageSchema = pageSchema(
  z
    .object({
      keyId: keyIdSchema,
      description: z.string(),
      createdAt: instantSchema,
      lastUsedAt: instantSchema.nullable().openapi({ description: 'To the minute; null before the first use.' }),
    })
    .openapi('ApiKey'),
).openapi('ApiKeyPage');

export const keyIdParamSchema = z.object({ keyId: keyIdSchema });

export const deletedApiKeySchema = z.object({ keyId: keyIdSchema }).openapi('DeletedApiKey');
