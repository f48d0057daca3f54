// Requests and answers of notices, their settings and push subscriptions. Shapes only.
import { z } from '@hono/zod-openapi';
import { noticeCauses } from '../vocabulary.ts';
import { sentParamsSchema } from './commands.ts';
import { deviceIdSchema, instantSchema, objectSchema, pageSchema, shortIdSchema, strictSchema } from './common.ts';
import { clockSchema } from './times.ts';

const causeSchema = z.enum(noticeCauses);

const noticeSchema = objectSchema('Notice', {
  noticeId: shortIdSchema,
  cause: causeSchema,
  deviceId: deviceIdSchema.nullable().openapi({ description: 'Null: about the account.' }),
  deviceName: z.string().nullable().openapi({ example: 'Hall lamp' }),
  at: instantSchema,
  detail: z.record(z.string(), z.union([z.string(), z.number(), z.null()])).openapi({
    description:
      'By cause: `since`; `scheduleId`, `name`, `outcome`, `reason`; `position`; `event`. Further members may come.',
    example: { since: '2026-03-01T11:50:00.000Z' },
  }),
  again: sentParamsSchema.nullable().openapi({ description: 'The command that "Try again" sends.' }),
  isRead: z.boolean(),
});

const unread = z.int().min(0).openapi({ description: 'Of all your notices.', example: 1 });
export const noticePageSchema = pageSchema(noticeSchema).extend({ unread }).openapi('NoticePage');
export const noticesReadSchema = objectSchema('NoticesRead', { unread });
export const readBodySchema = strictSchema('NoticesReadRequest', {
  noticeIds: z.array(shortIdSchema).max(100).optional().openapi({ description: 'Absent: all.' }),
});

const hoursSchema = strictSchema('DailyHours', {
  from: clockSchema.openapi({ example: '22:00' }),
  to: clockSchema.openapi({ description: 'Before `from`: on the next day.', example: '06:00' }),
  zone: z.string().max(64).openapi({ description: 'An IANA name.', example: 'Europe/Berlin' }),
});
const hoursOf = (description: string) => hoursSchema.nullable().default(null).openapi({ description });
const afterText = "Null: longer than the device's own usual gaps, and 10 minutes at least.";

export const noticeSettingsSchema = strictSchema('NoticeSettings', {
  off: z.array(causeSchema).max(20).default([]).openapi({ description: 'You get no notice of these.', example: [] }),
  offlineAfterSeconds: z.int().min(60).max(604_800).nullable().default(null).openapi({ description: afterText }),
  handHours: hoursOf('When `moved_by_hand` is told. Null: never.'),
  quietHours: hoursOf('Notices are kept, and not pushed.'),
});
export type NoticeSettings = z.infer<typeof noticeSettingsSchema>;

const keySchema = (size: number) =>
  z
    .string()
    .regex(/^[\w-]+={0,2}$/)
    .min(size)
    .max(size + 2)
    .openapi({ example: 'B'.repeat(size) });
/** As `toJSON()` of a browser's PushSubscription. */
export const pushSubscriptionBodySchema = strictSchema('PushSubscriptionRequest', {
  endpoint: z.string().max(2_000).openapi({ example: 'https://push.example.net/send/abc' }),
  expirationTime: z.number().nullable().optional(),
  keys: z.strictObject({ p256dh: keySchema(87), auth: keySchema(22) }),
});
export type PushSubscriptionBody = z.infer<typeof pushSubscriptionBodySchema>;

export const pushSubscriptionSchema = objectSchema('PushSubscription', {
  subscriptionId: shortIdSchema,
  host: z.string().openapi({ example: 'push.example.net' }),
  createdAt: instantSchema,
});
export const pushSubscriptionsSchema = objectSchema('PushSubscriptions', {
  publicKey: z.string().nullable().openapi({ description: 'For `applicationServerKey`. Null: nothing is pushed.' }),
  list: z.array(pushSubscriptionSchema),
});
export const endedSubscriptionSchema = z.object({ subscriptionId: shortIdSchema });
