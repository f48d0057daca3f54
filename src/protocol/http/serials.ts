// Requests and answers about the serial numbers of a product. Shapes only.
import { z } from '@hono/zod-openapi';
import {
  deviceIdSchema,
  deviceSNSchema,
  instantSchema,
  newSerialSchema,
  objectPageSchema,
  objectSchema,
  strictSchema,
} from './common.ts';

export const claimCodeSchema = z
  .string()
  .regex(/^[\x20-\x7e]{8,64}$/, 'must be 8 to 64 printable characters')
  .openapi({ description: 'Comes with the device; never shown.', example: 'K7RX-2MQ9-WD4T' });

export const serialEntrySchema = z.strictObject({ deviceSN: newSerialSchema, claimCode: claimCodeSchema.optional() });

export const serialsBodySchema = strictSchema('RegisterSerialsRequest', {
  serials: z.array(z.unknown()).openapi({
    type: 'array',
    items: { anyOf: [{ type: 'string' }, { type: 'object' }] },
    description: 'Up to 1 000, each a text or with a claim code.',
    example: ['SN-0001', { deviceSN: 'SN-0002', claimCode: 'K7RX-2MQ9-WD4T' }],
  }),
});

export const registeredSerialsSchema = objectSchema('RegisteredSerials', {
  registered: z.int().min(0).openapi({ example: 2 }),
  list: z.array(
    z.object({
      line: z.int().min(1).openapi({ example: 1 }),
      deviceSN: deviceSNSchema.nullable(),
      deviceId: deviceIdSchema.nullable(),
      result: z.enum(['registered', 'exists', 'code_set', 'code_not_set', 'repeated', 'invalid', 'too_many_devices']),
    }),
  ),
});
export type SerialResult = z.infer<typeof registeredSerialsSchema>['list'][number]['result'];

export const serialPageSchema = objectPageSchema('Serial', {
  deviceSN: deviceSNSchema,
  deviceId: deviceIdSchema,
  registeredAt: instantSchema.nullable().openapi({ description: 'Null if its first activation made it.' }),
  activatedAt: instantSchema.nullable(),
  isClaimed: z.boolean(),
  hasClaimCode: z.boolean(),
  isDisabled: z.boolean(),
});

export const removedSerialSchema = objectSchema('RemovedSerial', { deviceSN: deviceSNSchema });
