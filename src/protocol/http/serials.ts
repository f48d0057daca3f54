// Requests and answers about the serial numbers of a product. Shapes only.
import { z } from '@hono/zod-openapi';
import { anyProductKeySchema, deviceIdSchema, deviceSNSchema, instantSchema, pageSchema } from './common.ts';

export const serialsBodySchema = z
  .object({
    serials: z
      .array(z.unknown())
      .openapi({ type: 'array', items: { type: 'string' }, description: 'Up to 1 000.', example: ['SN-0001'] }),
  })
  .openapi('RegisterSerialsRequest');

export const registeredSerialsSchema = z
  .object({
    registered: z.int().min(0).openapi({ example: 2 }),
    list: z.array(
      z.object({
        line: z.int().min(1).openapi({ example: 1 }),
        deviceSN: deviceSNSchema.nullable(),
        deviceId: deviceIdSchema.nullable(),
        result: z.enum(['registered', 'exists', 'repeated', 'invalid', 'too_many_devices']),
      }),
    ),
  })
  .openapi('RegisteredSerials');

export const serialPageSchema = pageSchema(
  z
    .object({
      deviceSN: deviceSNSchema,
      deviceId: deviceIdSchema,
      registeredAt: instantSchema.nullable().openapi({ description: 'Null if its first activation made it.' }),
      activatedAt: instantSchema.nullable(),
      isClaimed: z.boolean(),
      isDisabled: z.boolean(),
    })
    .openapi('Serial'),
).openapi('SerialPage');

export const serialParamSchema = z.object({
  productKey: anyProductKeySchema,
  deviceSN: deviceSNSchema,
});

export const removedSerialSchema = z.object({ deviceSN: deviceSNSchema }).openapi('RemovedSerial');
