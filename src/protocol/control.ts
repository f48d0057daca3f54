// Control bodies of contract 4.3, new and legacy form. Shapes only: domain/control-command.ts decides which error a
// wrong body is.
import { z } from 'zod';
import { positionSchema } from './mqtt.ts';

export const newControlSchema = z
  .discriminatedUnion('action', [
    z.strictObject({ action: z.literal('toggle'), position: positionSchema.optional() }).meta({ title: 'toggle' }),
    z
      .strictObject({
        action: z.literal('pulse'),
        duration: z.int().min(1).max(3_600_000).optional().meta({ description: 'Delay in milliseconds.' }),
      })
      .meta({ title: 'pulse' }),
    z.strictObject({ action: z.literal('trigger') }).meta({ title: 'trigger' }),
  ])
  .meta({ title: 'new form' });

export const legacyControlSchema = z
  .strictObject({ switch: z.boolean().optional(), angle: z.int().min(0).max(180).optional() })
  .meta({ title: 'legacy form', minProperties: 1 });

export const controlBodySchema = z.union([newControlSchema, legacyControlSchema]);

/** Only of a schedule: its run is started, and the device is sent nothing. */
export const sceneCommandSchema = z
  .strictObject({ action: z.literal('scene'), sceneId: z.string().max(64) })
  .meta({ title: 'scene' });
export const scheduledCommandSchema = z.union([newControlSchema, legacyControlSchema, sceneCommandSchema]);

/** What `ensure` presses if the appliance was just seen to be otherwise. */
export const ensureSchema = z
  .strictObject({
    action: z.literal('ensure'),
    value: z.enum(['on', 'off']),
    press: z.enum(['pulse', 'toggle', 'trigger']).default('pulse'),
  })
  .meta({ title: 'with a witness' });

/** A lease (docs/times.md): `then` is a control body, whose errors are those of one. */
export const leaseBodySchema = z.strictObject({ seconds: z.int().min(5).max(86_400), then: z.unknown() });

const lease = leaseBodySchema.extend({ then: controlBodySchema });
export const fullControlBodySchema = z.union([
  newControlSchema,
  legacyControlSchema,
  ensureSchema,
  z.strictObject({ action: z.literal('toggle'), position: positionSchema, lease }).meta({ title: 'with a lease' }),
  z.strictObject({ angle: z.int().min(0).max(180), lease }).meta({ title: 'legacy form with a lease' }),
]);
