// Requests and answers of commands to devices (contract 4.3, decision: control). Shapes only.
import { z } from '@hono/zod-openapi';
import * as forms from '../control.ts';
import { instantSchema, objectSchema, orNull, pageSchema, shortIdSchema } from './common.ts';
import { actualSchema, commandWitnessSchema } from './witness.ts';
import { commandReasons, commandStates } from '../vocabulary.ts';

const stateSchema = z.enum(commandStates).openapi({
  description:
    '`accepted`: on its way to the broker. `sent`: the broker has it, or it was written to the session of the directly connected device. `waiting`: kept for a device that is away. ' +
    '`acknowledged`: the device replied. `confirmed`: a report shows the result. `undelivered`: no broker took it, or ' +
    'nobody was subscribed. `expired`: no reply came in time, or the broker did not confirm it; whether the device ' +
    'carried it out is not known. `failed`: the device replied with an error. `cancelled`: on request, replaced by a ' +
    'newer command, or its sender may send none any more.',
  example: 'acknowledged',
});
const stepSchema = z.int().nullable().openapi({ description: 'Milliseconds since the epoch.', example: 1772366400000 });

export const sentParamsSchema = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
  .openapi({ description: 'What is sent to the device.', example: { action: 'toggle', position: 'up' } });

/** Any JSON: `parseControl` reads it and tells the documented errors of a control body apart. */
function controlSchema(name: string, union: z.ZodType) {
  const anyOf = z.toJSONSchema(union, { io: 'input' }).anyOf as { type?: 'object' }[];
  return z.unknown().openapi(name, { anyOf, example: { action: 'toggle', position: 'up' } });
}
export const controlBodySchema = controlSchema('ControlRequest', forms.controlBodySchema);
export const scheduledSchema = controlSchema('ScheduledCommand', forms.scheduledCommandSchema);
export const fullControlSchema = controlSchema('FullControlRequest', forms.fullControlBodySchema);

export const controlExamples = {
  toggle: { value: { action: 'toggle', position: 'up' } },
  pulse: { value: { action: 'pulse', duration: 500 } },
  trigger: { value: { action: 'trigger' } },
  legacy: { value: { switch: true, angle: 90 } },
  ensure: { value: { action: 'ensure', value: 'on' } },
  lease: {
    value: { action: 'toggle', position: 'up', lease: { seconds: 1800, then: { action: 'toggle', position: 'down' } } },
  },
};

export const controlQuerySchema = z.object({
  wait: secondsSchema(10, 'Holds the answer until the device replied, or for this many seconds.', 5),
  until: z.literal('witnessed').optional().openapi({ description: 'With `wait`: also until its witness saw it.' }),
  ttl: secondsSchema(86_400, 'Seconds a `toggle` with `position` or an `angle` waits for a device that is away.', 3600),
});

export const controlHeadersSchema = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[\x20-\x7e]{1,64}$/, 'must be 1 to 64 printable characters')
    .optional()
    .openapi({ description: 'The same key of a user within 24 hours is the same command.', example: 'light-on-7' }),
});

export const commandReceiptSchema = objectSchema('CommandReceipt', {
  message: z.literal('command_sent'),
  commandId: shortIdSchema,
  deviceOnline: z.boolean().openapi({ description: 'As far as was known when the command was accepted.' }),
  expiresAt: instantSchema.openapi({ description: 'Nobody waits for a reply any more.' }),
  state: stateSchema.optional().openapi({ description: 'With `wait`: how far the command has come.' }),
  elapsedMs: z.int().optional().openapi({ description: 'With `wait`: until the reply, or until now.', example: 34 }),
  witness: orNull(commandWitnessSchema).optional().openapi({ description: 'With `until`.' }),
});
const notNeededSchema = objectSchema('NotNeeded', { message: z.literal('not_needed'), actual: actualSchema });
/** Typed as a receipt: only `ensure` is answered otherwise. */
export const controlAnswerSchema = z
  .union([commandReceiptSchema, notNeededSchema])
  .openapi('ControlAnswer') as unknown as typeof commandReceiptSchema;

export const commandSchema = objectSchema('Command', {
  commandId: shortIdSchema,
  state: stateSchema,
  reason: reasonSchema(commandReasons, 'Why it ended without success.'),
  final: z.boolean().openapi({ description: 'It is not expected to change any more.' }),
  replyCode: z.int().nullable().openapi({ description: "The code of the device's reply.", example: 200 }),
  params: sentParamsSchema,
  givenBy: z
    .object({
      userId: z.int().nullable().openapi({ description: 'Null: another user, whom only the owner sees.', example: 42 }),
      withKey: z.boolean(),
      via: z.enum(['home', 'scene']).optional().openapi({ description: '`home`: of the API key.' }),
    })
    .nullable()
    .openapi({ description: 'Null of a guest.' }),
  guestLinkId: z
    .string()
    .nullable()
    .openapi({ description: 'Of the guest link that sent it; for the owner alone.', example: null }),
  scheduleId: z
    .string()
    .nullable()
    .openapi({ description: 'Of the schedule that gave it; `lease`: the end of a lease.', example: null }),
  retryOf: shortIdSchema.nullable().openapi({ description: 'The command that nobody saw to work.', example: null }),
  witness: orNull(commandWitnessSchema).openapi({ description: 'Null: the device had no witness.' }),
  kept: z.boolean().openapi({ description: 'Sent with `ttl`.' }),
  expiresAt: instantSchema,
  steps: z.object({
    accepted: z.int().openapi({ description: 'Milliseconds since the epoch.', example: 1772366400000 }),
    published: stepSchema,
    brokerAcknowledged: stepSchema,
    deliveredAt: stepSchema.openapi({ description: 'Acknowledged by a direct connection; null with a broker.' }),
    deviceAcknowledged: stepSchema,
    confirmed: stepSchema,
    witnessed: stepSchema,
  }),
});

export const commandPageSchema = pageSchema(commandSchema).openapi('CommandPage');

/** One of the words, or the code with which the device replied. */
export function reasonSchema<const Words extends readonly string[]>(words: Words, description: string) {
  return z
    .enum(words)
    .or(z.templateLiteral(['device replied ', z.int()]).openapi({ type: 'string', example: 'device replied 500' }))
    .nullable()
    .openapi({ description, example: null });
}

export function secondsSchema(max: number, description: string, example: number) {
  return z
    .string()
    .regex(/^\d{1,6}$/, `must be an integer from 1 to ${max}`)
    .transform(Number)
    .refine((seconds) => seconds >= 1 && seconds <= max, `must be an integer from 1 to ${max}`)
    .optional()
    .openapi({ type: 'integer', minimum: 1, maximum: max, description, example });
}
