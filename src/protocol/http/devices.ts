// Requests and answers of devices (contract 2.5 to 2.7, 4.3). Shapes only.
import { z } from '@hono/zod-openapi';
import {
  anyProductKeySchema,
  cursorSchema,
  distinctSchema,
  deviceIdSchema,
  deviceSNSchema,
  instantSchema,
  lineSchema,
  newSerialSchema,
  objectPageSchema,
  objectSchema,
  orNull,
  pageQuery,
  pageSchema,
} from './common.ts';
import { positionSchema, topicActions } from '../mqtt.ts';
import { leaseSchema } from './times.ts';
import { actualSchema } from './witness.ts';
import * as words from '../vocabulary.ts';

const secretSchema = (example: string) => z.string().openapi({ example, description: 'Shown this once.' });

export const activateBodySchema = objectSchema('ActivateRequest', {
  productKey: anyProductKeySchema,
  deviceSN: newSerialSchema,
  firmwareVersion: lineSchema(0, 64).optional().openapi({ example: '1.4.2' }),
  chipModel: lineSchema(0, 64).optional().openapi({ example: 'ESP32-C3' }),
  // What is no text is a wrong one, and most products ask for none.
  deviceSecret: z.unknown().optional().openapi({ type: 'string', description: 'If `reactivation` is `secret`.' }),
});
export type ActivateBody = z.infer<typeof activateBodySchema>;

const connectionSchema = z.object({
  server: z.string().openapi({ example: 'broker.example.com' }),
  port: z.int().openapi({ example: 1883 }),
  portTLS: z.int().openapi({ example: 8883 }),
  username: z.string().openapi({ example: 'servo-switch&dev_8k2m4n6p' }),
  password: secretSchema('tk_9bX2...'),
  clientId: z.string().openapi({ example: 'servo-switch&dev_8k2m4n6p' }),
  keepAlive: z.int().openapi({ example: 60 }),
});

export const activationSchema = objectSchema('Activation', {
  deviceId: deviceIdSchema,
  deviceSecret: secretSchema('sk_3fK8...'),
  mqtt: connectionSchema,
  topics: z.object({
    propertyPost: z.string().openapi({ example: '/sys/servo-switch/dev_8k2m4n6p/thing/event/property/post' }),
    propertySet: z.string().openapi({ example: '/sys/servo-switch/dev_8k2m4n6p/thing/service/property/set' }),
    status: z.string().openapi({ example: '/sys/servo-switch/dev_8k2m4n6p/status' }),
  }),
});

const isTag = (text: string) => /^[\p{L}\p{N} _.:-]{1,32}$/u.test(text) && text.trim() === text;
export const tagSchema = z
  .string()
  .refine(isTag, 'must be 1 to 32 letters, digits, spaces and `_.:-`, without a space at an end')
  .openapi({ minLength: 1, maxLength: 32, example: 'ground floor' });

export const deviceSchema = objectSchema('Device', {
  role: z.enum(words.deviceRoles).openapi({ description: 'What you are to the device.', example: 'owner' }),
  deviceId: deviceIdSchema,
  deviceSN: deviceSNSchema.openapi({
    description: 'Whole for the owner and for keys with `manage`; for others `…` and its last four characters.',
  }),
  productKey: anyProductKeySchema,
  projectId: z.string().openapi({ example: 'prj_5d7f9g2h' }),
  name: z.string().openapi({ example: 'Servo switch 0001' }),
  statusCode: z.int().min(0).max(3).openapi({ example: 1 }),
  status: z.enum(words.deviceStatusTexts),
  statusText: z.string().openapi({ example: 'Online' }),
  firmwareVersion: z.string().openapi({ example: '1.4.2' }),
  chipModel: z.string().openapi({ example: 'ESP32-C3' }),
  tags: z.array(tagSchema).openapi({ description: "The owner's, for its members, too." }),
  lastOnlineAt: instantSchema.nullable(),
  activatedAt: instantSchema.nullable(),
  createdAt: instantSchema,
  product: z.object({
    productId: z.int().openapi({ example: 7 }),
    productKey: anyProductKeySchema,
    name: z.string().openapi({ example: 'Servo switch' }),
    uiTemplate: z.string().openapi({ example: 'three_position' }),
    iconName: z.string().openapi({ example: 'toggle_on' }),
    iconColor: z.string().openapi({ example: '#2196F3' }),
    controlMode: z.enum(words.controlModes),
    model: z.string().openapi({ example: 'LS-1' }),
  }),
});

export const changeDeviceBodySchema = z
  .strictObject({
    name: lineSchema(1, 100).openapi({ example: 'Hall light' }),
    disabled: z.boolean().openapi({ description: 'A disabled device is kept out until it is enabled.', example: true }),
    reactivation: z.literal('open').nullable().openapi({
      description:
        'With `open` everybody who knows its serial may activate it, whatever its product says; null takes it back.',
      example: 'open',
    }),
    tags: distinctSchema(tagSchema, 0, 16).openapi({ description: 'In place of its present tags.' }),
  })
  .partial()
  .openapi('ChangeDeviceRequest');
export type ChangeDeviceBody = z.infer<typeof changeDeviceBodySchema>;

export const credentialsSchema = activationSchema.pick({ deviceId: true, mqtt: true }).openapi('DeviceCredentials');

export const devicePageSchema = pageSchema(deviceSchema)
  .extend({
    next: z.string().nullable().optional().openapi({ description: 'With `after`; null at the end.', example: null }),
    isCut: z.boolean().optional().openapi({ description: 'With `search`: there may be more.', example: false }),
  })
  .openapi('DevicePage');

const statusFilters = ['0', '1', '2', '3', ...words.deviceStatusTexts] as const;
const statusFilterSchema = z
  .string()
  .pipe(z.enum(statusFilters, 'must be 0 to 3 or inactive, online, offline, disabled'))
  .transform((text) => (statusFilters.indexOf(text) % 4) as 0 | 1 | 2 | 3)
  .openapi({ type: 'string', enum: [...statusFilters], example: 'online' });

export const listDevicesQuerySchema = z.object({
  productKey: z.string().optional().openapi({ description: 'Only devices of this product.', example: 'servo-switch' }),
  status: statusFilterSchema.optional(),
  role: z
    .enum(['owner', ...words.memberRoles])
    .optional()
    .openapi({ description: 'Only own devices, or only devices shared with you in this role.' }),
  search: z
    .string()
    .trim()
    .max(100)
    .optional()
    .openapi({
      description:
        'The begin of a name, or a `deviceId`; of own devices also the begin of a serial number, with a key that has `manage`. ' +
        'Not with `after`.',
      example: 'hall',
    }),
  tag: tagSchema.optional().openapi({ description: 'Only devices with this tag. Not with `search`.' }),
  after: cursorSchema.optional(),
  ...pageQuery,
});
export type DevicesQuery = z.infer<typeof listDevicesQuerySchema>;

export const pageQuerySchema = z.object(pageQuery);

export const statusViewSchema = objectSchema('DeviceStatus', {
  deviceId: deviceIdSchema,
  deviceName: z.string().openapi({ example: 'Servo switch 0001' }),
  online: z.boolean(),
  position: positionSchema.nullable(),
  status: z.enum(words.deviceStatusTexts),
  lastOnlineAt: instantSchema.nullable(),
  lease: leaseSchema.optional().openapi({ description: 'If there is one.' }),
  actual: orNull(actualSchema)
    .optional()
    .openapi({ description: 'What its witness saw last; null: nothing yet. Absent without a witness.' }),
});

const deviceEventPageSchema = objectPageSchema('DeviceEvent', {
  status: z.enum(words.deviceEventStatuses),
  reason: z
    .enum([
      ...new Set([
        ...words.transitionReasons,
        ...words.loginRefusalReasons,
        ...words.floodReasons,
        ...words.messageRejectionReasons,
        ...words.activationReasons,
        ...words.activationRefusalReasons,
        ...words.ownershipChanges,
        ...words.membershipChanges,
        ...words.guestLinkChanges,
        'contested' as const,
      ]),
    ])
    .openapi({ description: 'Why the device came or went, or what was done to it.', example: 'disconnected' }),
  detail: z.string().openapi({
    description: "The broker's word for it, a `linkId`, the topic of a message, or empty.",
    example: 'tcp_closed',
  }),
  time: instantSchema.openapi({ description: 'Of what is counted the last one.' }),
  count: z.int().min(1).optional().openapi({
    description: 'How many attempts or messages within an hour, or how many transitions, the entry stands for.',
    example: 3,
  }),
  address: z.string().nullable().optional().openapi({
    description: 'For the owner alone: network address of the last client that did this; null if it is unknown.',
    example: '192.0.2.7',
  }),
  email: z.string().optional().openapi({ example: 'bert@example.com' }),
  role: z.enum(words.memberRoles).nullable().optional().openapi({ description: 'Null if it ended.' }),
});

export const eventsQuerySchema = z.object({
  ...pageQuery,
  after: z
    .string()
    .regex(/^\d{1,15}$/, 'must be the number of an event, or 0')
    .transform(Number)
    .optional()
    .openapi({
      type: 'integer',
      minimum: 0,
      description: 'In place of `page`: events for webhooks after this number.',
    }),
});

const eventNumberSchema = z.int().min(0).openapi({ example: 42 });

export const eventsAfterSchema = objectSchema('EventsAfter', {
  list: z
    .array(
      objectSchema('OutgoingEvent', {
        number: eventNumberSchema,
        type: z.enum(words.eventTypes),
        time: instantSchema,
        data: z.record(z.string(), z.unknown()).openapi({ example: { changes: { position: 'up' } } }),
      }),
    )
    .openapi({ description: 'Oldest first.' }),
  gap: z
    .object({ from: eventNumberSchema, to: eventNumberSchema })
    .nullable()
    .openapi({ description: 'Numbers that the device no longer has, both included.', example: null }),
  next: eventNumberSchema.openapi({ description: 'Read on with this as `after`, until it is `last`.' }),
  last: eventNumberSchema.openapi({ description: 'Number of the newest event.' }),
});

export const deviceEventsSchema = z.union([deviceEventPageSchema, eventsAfterSchema]);

export const devicePropertiesSchema = objectSchema('DeviceProperties', {
  list: z.array(
    z.object({
      name: z.string().openapi({ example: 'position' }),
      value: z.unknown().openapi({ example: 'up' }),
      time: instantSchema.openapi({ description: 'Arrival of the report that brought this value.' }),
      savedAt: instantSchema
        .optional()
        .openapi({ description: 'The value as of then: newer ones, which are saved rarely, may have been pushed.' }),
    }),
  ),
  positionChanges: z
    .array(z.object({ position: positionSchema, time: instantSchema }))
    .openapi({ description: 'The last hundred, newest first.' }),
  lastRejected: z
    .object({
      topic: z.enum(topicActions).openapi({ example: 'thing/event/property/post' }),
      reason: z.enum(words.rejectionReasons).openapi({ example: 'wrong_type' }),
      dropped: z.array(z.string()).openapi({ description: 'Members that did not count.', example: ['position'] }),
      text: z.string().openapi({ description: 'The first 200 bytes.', example: '{"params":{}}' }),
      time: instantSchema,
    })
    .nullable()
    .openapi({ description: 'The last message that could not be read, or not all of it.' }),
});

const timeFilterSchema = (description: string) =>
  z.iso
    .datetime({ offset: true })
    .transform((text) => Date.parse(text))
    .openapi({ type: 'string', format: 'date-time', description, example: '2026-03-01T12:00:00.000Z' });

export const deleteDevicesQuerySchema = z.object({
  status: statusFilterSchema.optional(),
  createdAfter: timeFilterSchema('Only devices created then or later.').optional(),
  createdBefore: timeFilterSchema('Only devices created before.').optional(),
});
export type DeleteDevicesQuery = z.infer<typeof deleteDevicesQuerySchema>;

export const deletedDevicesSchema = objectSchema('DeletedDevices', {
  deleted: z.int().min(0).openapi({ example: 100 }),
  failed: z.int().min(0).openapi({ description: 'Devices that could not be deleted now.', example: 0 }),
  remaining: z.int().min(0).max(10_000).openapi({
    description: 'Devices that still match, failed ones included; 10000 means 10000 or more.',
    example: 4711,
  }),
});

export const deletedDeviceSchema = objectSchema('DeletedDevice', { deviceId: deviceIdSchema });
