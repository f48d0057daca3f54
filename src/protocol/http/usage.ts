// Requests and answers of usage, history and the zone of a user's days. Shapes only. A date is a day in that zone; the zone of the
// answer says which.
import { z } from '@hono/zod-openapi';
import { usageValues } from '../vocabulary.ts';
import { instantSchema, objectSchema, strictSchema } from './common.ts';

const dateSchema = z.iso.date().openapi({ example: '2026-11-01' });
const secondsSchema = z.int().min(0).openapi({ example: 3600 });
const countSchema = z.int().min(0).openapi({ example: 3 });
const zoneName = z.string().max(64).openapi({ description: 'An IANA name.', example: 'Europe/Berlin' });

export const zoneSchema = strictSchema('Zone', { zone: zoneName });

const range = {
  from: dateSchema.optional().openapi({ description: 'The first day. 29 days before `to` by default.' }),
  to: dateSchema.optional().openapi({ description: 'The last day. Today by default.' }),
};
export const rangeQuerySchema = z.object(range);
export const usageQuerySchema = z.object({ ...range, step: z.enum(['day', 'week', 'month']).default('day') });
export const historyQuerySchema = z.object({
  property: z.string().min(1).max(64).openapi({ example: 'power' }),
  ...range,
  step: z.enum(['quarter', 'hour', 'day']).default('hour').openapi({ description: '`quarter`: 15 minutes.' }),
});
export type RangeQuery = z.infer<typeof rangeQuerySchema>;
export type UsageQuery = z.infer<typeof usageQuerySchema>;
export type HistoryQuery = z.infer<typeof historyQuerySchema>;

export const usageStepSchema = objectSchema('UsageStep', {
  from: dateSchema,
  to: dateSchema.openapi({ description: 'The last day of it, at most the one asked for, and today.' }),
  zone: zoneName,
  seconds: secondsSchema.openapi({ description: 'Its length, of today until now: the next three add up to it.' }),
  onSeconds: secondsSchema,
  offSeconds: secondsSchema,
  unknownSeconds: secondsSchema.openapi({ description: 'Not known, as while the device is offline.' }),
  presses: z
    .object({ person: countSchema, key: countSchema, schedule: countSchema, scene: countSchema, hand: countSchema })
    .openapi({ description: 'By cause. `person`: also guests. `schedule`: also leases. `hand`: at the device.' }),
  failures: countSchema.openapi({ description: 'Commands that certainly did not happen.' }),
});

const timelineSchema = objectSchema('Timeline', {
  changes: z.array(z.tuple([secondsSchema, z.enum(usageValues)])).openapi({
    description: 'From that second of the day on. Before the first: unknown.',
    example: [[3600, 'on']],
  }),
  isCut: z.boolean().openapi({ description: 'The day had more than 200 changes: later ones are missing.' }),
});

export const usageSchema = objectSchema('Usage', {
  list: z.array(usageStepSchema),
  timeline: timelineSchema.optional().openapi({ description: 'If a single day is asked for, by `day`.' }),
});
export type UsageView = z.infer<typeof usageSchema>;

export const historyPointSchema = objectSchema('HistoryPoint', {
  at: instantSchema.openapi({ description: 'Its beginning.' }),
  least: z.number(),
  greatest: z.number(),
  mean: z.number(),
  last: z.number(),
  count: z.int().min(1).openapi({ description: 'Reports that are in it.', example: 15 }),
});

export const historySchema = objectSchema('History', {
  property: z.string().openapi({ example: 'power' }),
  zone: zoneName,
  list: z.array(historyPointSchema).openapi({ description: 'Without reports there is no point.' }),
});
export type HistoryView = z.infer<typeof historySchema>;

export const productUsageDaySchema = objectSchema('ProductUsageDay', {
  date: dateSchema.openapi({ description: 'In the zone of each owner.' }),
  devices: countSchema.openapi({ description: 'Those of which something was known.' }),
  onSeconds: secondsSchema,
  offSeconds: secondsSchema,
  unknownSeconds: secondsSchema,
  presses: countSchema,
  failures: countSchema,
});
export const productUsageSchema = objectSchema('ProductUsage', { list: z.array(productUsageDaySchema) });
