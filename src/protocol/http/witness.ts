// Requests and answers of a device's witness. Shapes only.
import { z } from '@hono/zod-openapi';
import * as words from '../vocabulary.ts';
import { deviceIdSchema, instantSchema, lineSchema, objectSchema, orNull } from './common.ts';

const property = lineSchema(1, 64).openapi({ example: 'power' });
const condition = {
  property,
  operator: z.enum(words.witnessOperators),
  value: z.union([z.number(), z.boolean(), lineSchema(0, 100)]).openapi({ example: 20 }),
};
const byText =
  'A property of the device that has to change, such as a counter of presses. Or what a property has to be, of this device or ' +
  'of another one that you may read. Or a check-in at an address that this answer shows.';
const bySchema = z
  .union([
    z.strictObject({ property }),
    z.strictObject({ deviceId: deviceIdSchema.optional(), ...condition }),
    z.strictObject({ checkIn: z.literal(true) }),
  ])
  .openapi({ description: byText, example: { property: 'power', operator: '>', value: 20 } });

export const witnessBodySchema = z
  .strictObject({
    expect: z
      .enum(words.witnessExpectations)
      .openapi({ description: 'What is seen if a command worked.', example: 'on' }),
    by: bySchema,
    withinSeconds: z.int().min(1).max(300).openapi({ description: 'After a command is published.', example: 30 }),
    then: z.enum(words.witnessConsequences).openapi({
      example: 'notice',
      description:
        'If nothing is seen. `retry_once`: a `toggle` with `position` or an `angle` is sent once more. `notice`: for those who may read the device.',
    }),
  })
  .openapi('WitnessRequest');
export type WitnessSettings = z.infer<typeof witnessBodySchema>;

export const actualSchema = objectSchema('Actual', {
  value: z.enum(words.witnessExpectations),
  seenAt: instantSchema,
  ageSeconds: z.int().min(0).openapi({ example: 12 }),
  by: z.string().openapi({ description: 'Another device, `property` or `check_in`.', example: 'dev_3h5k7m9p' }),
  reading: z
    .union([z.number(), z.boolean(), z.string()])
    .nullable()
    .openapi({ description: 'What was reported. Null of a check-in.', example: 34.2 }),
});

export const witnessSchema = objectSchema('Witness', {
  ...witnessBodySchema.shape,
  actual: orNull(actualSchema).openapi({ description: 'What was seen last.' }),
});
export const setWitnessSchema = objectSchema('SetWitness', {
  ...witnessSchema.shape,
  checkInUrl: z
    .url()
    .optional()
    .openapi({ description: 'Shown this once. A POST to it, and no other right, is a check-in.' }),
});

export const commandWitnessSchema = objectSchema('CommandWitness', {
  expect: z.enum(words.witnessExpectations),
  outcome: z.enum(words.witnessOutcomes),
  at: instantSchema.nullable().openapi({ description: 'When it was seen.' }),
  by: z.string().nullable().openapi({ description: 'Who saw it, as in `actual`.', example: 'dev_3h5k7m9p' }),
  dueAt: instantSchema.openapi({ description: 'Until then it has to be seen.' }),
  reason: z.enum(words.witnessReasons).nullable().openapi({ description: 'Why it was not witnessed.' }),
});
