// The answer of the health address: well, or an error; the parts by name for the operator and bridges alone.
import { z } from '@hono/zod-openapi';
import { objectSchema } from './common.ts';

const upSchema = z.literal('up');

export const healthSchema = objectSchema('Health', {
  status: z.literal('ok'),
  parts: z
    .object({
      api: upSchema,
      database: upSchema,
      bridge: upSchema.optional().openapi({ description: 'Absent where there is no broker' }),
      broker: upSchema.optional().openapi({ description: 'Absent where there is no broker' }),
    })
    .optional()
    .openapi({ description: 'With a secret of the operator or of a bridge' }),
});

export const unhealthySchema = objectSchema('Unhealthy', {
  code: z.literal(503).openapi({ type: 'integer', enum: [503] }),
  message: z.string().openapi({ example: 'unavailable: bridge, broker' }),
  data: z.null(),
});
