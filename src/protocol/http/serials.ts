// Requests and answers about the serial numbers of a product. Shapes only.
import { z } from '@hono/zod-openapi';
import {
  anyProductKeySchema,
  deviceIdSchema,
  deviceSNSchema,
  instantSchema,
  newSerialSchema,
  pageSchema,
} from './common.ts';

export const claimCodeSchema = z
  .string()
  .regex(/^[\x20-\x7e]{8,64}$/, 'must be 8 to 64 printable characters')
  .openapi({ description: 'Comes with the device; never shown.', example: 'K7RX-2MQ9-WD4T' });

export const serialEntrySchema = z.strictObject({ deviceSN: newSerialSchema, claimCode: claimCodeSchema.optional() });

export const serialsBodySchema = z
  .strictObject({
    serials: z.array(z.unknown()).openapi({
      type: 'array',
      items: { anyOf: [{ type: 'string' }, { type: 'object' }] },
      description: 'Up to 1 000, each a text or with a claim code.',
      example: ['SN-0001', { deviceSN: 'SN-0002', claimCode: 'K7RX-2MQ9-WD4T' }],
    }),
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
        result: z.enum(['registered', 'exists', 'code_set', 'code_not_set', 'repeated', 'invalid', 'too_many_devices']),
      }),
    ),
  })
  .openapi('RegisteredSerials');
export type SerialResult = z.infer<typeof registeredSerialsSchema>['list'][number]['result'];

export const serialPageSchema = pageSchema(
  z
    .object({
      deviceSN: deviceSNSchema,
      deviceId: deviceIdSchema,
      registeredAt: instantSchema.nullable().openapi({ description: 'Null if its first activation made it.' }),
      activatedAt: instantSchema.nullable(),
      isClaimed: z.boolean(),
      hasClaimCode: z.boolean(),
      isDisabled: z.boolean(),
    })
    .openapi('Serial'),
).openapi('SerialPage');

export const serialParamSchema = z.object({
  productKey: anyProductKeySchema,
  deviceSN: deviceSNSchema,
});

export const removedSerialSchema = z.object({ deviceSN: deviceSNSchema }).openapi('RemovedSerial');
