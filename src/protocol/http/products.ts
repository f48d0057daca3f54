// Requests and answers of the product catalogue (contract 2.4, 4.2) and of the serial numbers of a product. Shapes and defaults only.
import { z } from '@hono/zod-openapi';
import { activationPolicies, controlModes, reactivationPolicies } from '../vocabulary.ts';
import {
  deviceIdSchema,
  deviceSNSchema,
  instantSchema,
  lineSchema,
  newSerialSchema,
  objectPageSchema,
  objectSchema,
  pageQuery,
  pageSchema,
  strictSchema,
  textSchema,
} from './common.ts';

const productKeySchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -')
  .openapi({ example: 'servo-switch' });

const reactivationText =
  'To activate again, with `owner`: a pairing window or a claim token; `secret`: the `deviceSecret`; `never`: a release. ' +
  'null: `owner` once claimed, else `open`.';

// Without defaults, because PUT keeps the fields that are left out.
const fields = {
  name: lineSchema(1, 100).openapi({ example: 'Servo switch' }),
  description: textSchema(0, 1000).openapi({ example: 'Presses a wall switch' }),
  category: lineSchema(1, 100).openapi({ example: 'switch' }),
  controlMode: z.enum(controlModes).openapi({ example: 'toggle' }),
  uiTemplate: lineSchema(1, 64).openapi({ example: 'three_position' }),
  iconName: lineSchema(1, 64).openapi({ description: 'A Material Icons name.', example: 'toggle_on' }),
  iconColor: z
    .string()
    .regex(/^#[0-9A-Fa-f]{6}$/, 'must have the form #RRGGBB')
    .openapi({ example: '#2196F3' }),
  manufacturer: lineSchema(0, 100).openapi({ example: 'Latchwork' }),
  model: lineSchema(0, 100).openapi({ example: 'LS-1' }),
  status: z
    .union([z.literal(0), z.literal(1)])
    .openapi({ type: 'integer', enum: [0, 1], description: '0: devices no longer activate.', example: 1 }),
  offlineGraceSeconds: z.int().min(0).max(60).openapi({ description: 'Before it counts as offline.', example: 5 }),
  activation: z.enum(activationPolicies).openapi({ description: 'Which serials may activate.', example: 'open' }),
  reactivation: z.enum(reactivationPolicies).nullable().openapi({ description: reactivationText, example: null }),
  supportsHold: z.boolean().openapi({
    description: 'Its firmware takes a command with `holdSeconds` back by itself: commands with a lease carry it.',
    example: false,
  }),
};

export const createProductBodySchema = objectSchema('CreateProductRequest', {
  productKey: productKeySchema,
  ...fields,
  description: fields.description.default(''),
  category: fields.category.default('general'),
  controlMode: fields.controlMode.default('generic'),
  uiTemplate: fields.uiTemplate.default('generic'),
  iconName: fields.iconName.default('devices'),
  iconColor: fields.iconColor.default('#607D8B'),
  manufacturer: fields.manufacturer.default(''),
  model: fields.model.default(''),
  status: fields.status.default(1),
  offlineGraceSeconds: fields.offlineGraceSeconds.default(5),
  activation: fields.activation.default('open'),
  reactivation: fields.reactivation.default(null),
  supportsHold: fields.supportsHold.default(false),
});
export type CreateProductBody = z.infer<typeof createProductBodySchema>;

export const updateProductBodySchema = z
  .object({ productKey: productKeySchema.openapi({ description: 'The one of the path, or absent.' }), ...fields })
  .partial()
  .openapi('UpdateProductRequest');
export type UpdateProductBody = z.infer<typeof updateProductBodySchema>;

export const productSchema = objectSchema('Product', {
  productId: z.int().openapi({ example: 7 }),
  productKey: productKeySchema,
  ...fields,
  createdAt: instantSchema,
  updatedAt: instantSchema,
});

export const createdProductSchema = productSchema
  .pick({ productId: true, productKey: true, name: true })
  .openapi('CreatedProduct');

export const productPageSchema = pageSchema(productSchema).openapi('ProductPage');

export const listProductsQuerySchema = z.object({
  category: z.string().optional().openapi({ description: 'Only products of exactly this category.' }),
  ...pageQuery,
});
export type ProductsQuery = z.infer<typeof listProductsQuerySchema>;

export const deletedProductSchema = objectSchema('DeletedProduct', { productKey: productKeySchema });

export const productFiguresSchema = objectSchema('ProductFigures', {
  devices: z.int().min(0).openapi({ description: 'All of the product, of any owner.', example: 1200 }),
  online: z.int().min(0).openapi({ example: 800 }),
  claimed: z.int().min(0).openapi({ description: 'Those that a user has claimed.', example: 900 }),
  activatedToday: z.int().min(0).openapi({ description: 'Activated for the first time, since 0:00 UTC.', example: 12 }),
});

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
