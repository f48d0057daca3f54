// Control bodies of interface 4.3, new and legacy form, and the message they become on property/set.
// Pure: takes what the caller sent, says what the device gets or which error it is.
import { z } from 'zod';
import { positionSchema, propertySetMethod, type PropertySet } from '../protocol/mqtt.ts';
import type { Outcome } from './errors.ts';

const newFormSchema = z
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
const legacyFormSchema = z
  .strictObject({
    switch: z.boolean().optional(),
    angle: z.int().min(0).max(180).optional(),
  })
  .meta({ title: 'legacy form', minProperties: 1 });

const controlMembers = ['action', 'position', 'duration', 'switch', 'angle'] as const;

/** Both forms as the reference shows them: what `parseControl` lets through. */
export const controlBodySchema = z.union([newFormSchema, legacyFormSchema]);

export type ControlParams = PropertySet['params'];

/**
 * The control members of a request body, exactly as received. Members that are not control parameters are ignored;
 * without any, `no_control_params`; anything wrong among them, `invalid_control_params` (decisions, Control).
 */
export function parseControl(body: unknown): Outcome<ControlParams> {
  if (typeof body !== 'object' || body === null) return { ok: false, error: 'no_control_params' };
  const given = Object.entries(body).filter(([name]) => (controlMembers as readonly string[]).includes(name));
  if (given.length === 0) return { ok: false, error: 'no_control_params' };
  const params = Object.fromEntries(given) as ControlParams;
  const schema = 'action' in params ? newFormSchema : legacyFormSchema;
  return schema.safeParse(params).success
    ? { ok: true, value: params }
    : { ok: false, error: 'invalid_control_params' };
}

/** The message body for the device. `id` needs no JSON escaping and stays within 20 characters. */
export function encodeControl(params: ControlParams, id: string, nowMs: number): string {
  return JSON.stringify({ method: propertySetMethod, id, params, time: nowMs } satisfies PropertySet);
}
