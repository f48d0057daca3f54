// Requests and answers of schedules, their runs and leases. Shapes only.
import { z } from '@hono/zod-openapi';
import * as words from '../vocabulary.ts';
import { reasonSchema, scheduledSchema, sentParamsSchema } from './commands.ts';
import {
  instantSchema,
  lineSchema,
  objectSchema,
  pageQuery,
  pageSchema,
  shortIdSchema,
  strictSchema,
} from './common.ts';

const secondsSchema = (min: number, max: number, description: string) =>
  z.int().min(min).max(max).openapi({ description, example: min });
const degreesSchema = (most: number, example: number) => {
  const toTenth = (degrees: number) => Math.round(degrees * 10) / 10;
  return z.number().min(-most).max(most).transform(toTenth).openapi({ example });
};
const dateSchema = z.iso.date().openapi({ example: '2026-12-24' });

const sunSchema = strictSchema('SunTime', {
  sun: z.enum(['sunrise', 'sunset']),
  offsetMinutes: z.int().min(-720).max(720).default(0).openapi({ example: -15 }),
  place: z
    .strictObject({ latitude: degreesSchema(90, 52.5), longitude: degreesSchema(180, 13.4) })
    .openapi({ description: 'Rounded to 0.1 degree. Only the object of the device stores it.' }),
});

const atText =
  'A time of the day, `07:30`, or of the sun: then the schedule recurs. Or an instant, `2026-12-01T18:30:00Z`, or a local ' +
  'date and time with `zone`: then it runs once.';
const atProblem = 'must be a time HH:MM, a date and time, or a time of the sun';
export const clockSchema = z.string().regex(/^(?:[01]\d|2[0-3]):[0-5]\d$/);
const isMoment = (text: string) => z.iso.datetime({ local: true, offset: true }).safeParse(text).success;
// As text: the format `date-time` of JSON Schema needs an offset.
const momentSchema = z.string().refine(isMoment);

const fields = {
  name: lineSchema(0, 100).default('').openapi({ example: 'Morning' }),
  at: z.union([clockSchema, momentSchema, sunSchema], atProblem).openapi({ description: atText, example: '07:30' }),
  days: z.array(z.enum(words.weekdays)).min(1).max(7).nullable().default(null).openapi({ description: 'Null: all.' }),
  zone: z.string().max(64).nullable().default(null).openapi({ description: 'An IANA name.', example: 'Europe/Berlin' }),
  from: dateSchema.nullable().default(null).openapi({ description: 'The first date.' }),
  until: dateSchema.nullable().default(null).openapi({ description: 'The last date.' }),
  except: z.array(dateSchema).max(50).default([]).openapi({ description: 'Dates without a run.', example: [] }),
  enabled: z.boolean().default(true).openapi({ description: 'False: its due times are skipped.' }),
};
const jitterSeconds = secondsSchema(0, 3600, 'A run begins up to so much later. 120 if it recurs, else 0.');
const graceText = 'So late a run may be. 60 and more for `toggle` with `position` and `angle`, 10 at most for others.';
const graceSeconds = secondsSchema(5, 3600, graceText);

export const scheduleBodySchema = z
  .strictObject({
    ...fields,
    jitterSeconds: jitterSeconds.optional(),
    graceSeconds: graceSeconds.optional(),
    // If the command is missing the answer is that of a control body without a parameter.
    command: scheduledSchema.optional(),
  })
  .openapi('ScheduleRequest', {
    required: ['at', 'command'],
    example: { at: '07:30', zone: 'Europe/Berlin', command: { action: 'toggle', position: 'up' } },
  });
export type ScheduleBody = z.infer<typeof scheduleBodySchema>;

const settingsSchema = z.object({ ...fields, jitterSeconds, graceSeconds, command: sentParamsSchema });
/** As the object of the device stores it. */
export type ScheduleSettings = z.infer<typeof settingsSchema>;

const dueAtSchema = instantSchema.openapi({ description: 'Without jitter.' });
const whyText = 'If the clock or the sun is odd on that day: why, in words.';
const whySchema = z.string().nullable().openapi({ description: whyText, example: null });

export const scheduleSchema = objectSchema('Schedule', {
  ...settingsSchema.shape,
  scheduleId: shortIdSchema,
  pausedBecause: z.enum(words.pauseReasons).nullable().openapi({ example: null }),
  author: z
    .object({
      userId: z.int().nullable().openapi({ description: 'As of commands.', example: 42 }),
      withKey: z.boolean(),
    })
    .openapi({ description: 'Made, replaced or resumed it last. Its commands are given by this user.' }),
  nextDueAt: dueAtSchema.nullable().openapi({ description: 'Null: it has ended.' }),
  why: whySchema,
});
export type ScheduleView = z.infer<typeof scheduleSchema>;

export const schedulePageSchema = pageSchema(scheduleSchema).openapi('SchedulePage');
export const removedScheduleSchema = objectSchema('RemovedSchedule', { scheduleId: shortIdSchema });
export const nextQuerySchema = z.object({ count: pageQuery.size });

const dueSchema = z.object({
  scheduleId: shortIdSchema.optional().openapi({ description: 'Not in a preview.' }),
  dueAt: dueAtSchema,
  why: whySchema,
  skipped: z.enum(words.skipReasons).nullable().openapi({ description: 'Why it will not run.', example: null }),
});
export type DueView = z.infer<typeof dueSchema>;
export const nextRunsSchema = objectSchema('NextRuns', { list: z.array(dueSchema) });

export const runSchema = objectSchema('Run', {
  runId: z.string().openapi({ description: 'Of schedule and due time.', example: '3h5k7m9p2q4r6s8t:1772366400000' }),
  scheduleId: z.string().openapi({ description: '`lease`: the end of a lease.', example: '3h5k7m9p2q4r6s8t' }),
  name: z.string().openapi({ description: 'Of the schedule then.', example: 'Morning' }),
  dueAt: dueAtSchema,
  outcome: z.enum(words.runOutcomes).openapi({ example: 'confirmed' }),
  reason: reasonSchema(words.runReasons, 'Why it did not happen, or is not known to have happened.'),
  commandId: shortIdSchema.nullable().openapi({ description: 'Null: no command was given.' }),
});
export type RunView = z.infer<typeof runSchema>;

export const runPageSchema = pageSchema(runSchema)
  .extend({ dropped: z.int().min(0).openapi({ description: 'Older runs, which are gone.', example: 0 }) })
  .openapi('RunPage');

export const leaseSchema = objectSchema('Lease', {
  state: z.enum(['running', 'pursuing']).openapi({ description: '`pursuing`: over, and the end is not confirmed.' }),
  then: sentParamsSchema,
  endsAt: instantSchema,
  attempts: z.int().min(0).openapi({ description: 'How often `then` was sent.', example: 0 }),
  nextAttemptAt: instantSchema.nullable().openapi({ description: 'Null: when the device comes back.' }),
  commandId: shortIdSchema.openapi({ description: 'Of the command that began it.' }),
  lastCommandId: shortIdSchema.nullable().openapi({ description: 'Of the last attempt.', example: null }),
});
export type LeaseView = z.infer<typeof leaseSchema>;
