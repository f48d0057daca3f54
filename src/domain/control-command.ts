// Reads a control body (contract 4.3) and writes the property/set message it becomes.
import type { z } from 'zod';
import { legacyControlSchema, newControlSchema } from '../protocol/control.ts';
import { propertySetMethod, type PropertySet } from '../protocol/mqtt.ts';
import { refuse, type Outcome } from './refusal.ts';

const controlMembers: readonly string[] = ['action', 'position', 'duration', 'switch', 'angle'];

export type ControlParams = PropertySet['params'];

/** The control members exactly as received. Other members are ignored (decision: control). */
export function parseControl(body: unknown): Outcome<ControlParams> {
  if (typeof body !== 'object' || body === null) return refuse({ kind: 'no_control_params' });
  const members = Object.entries(body).filter(([name]) => controlMembers.includes(name));
  if (members.length === 0) return refuse({ kind: 'no_control_params' });
  const params = Object.fromEntries(members) as ControlParams;
  const schema = 'action' in params ? newControlSchema : legacyControlSchema;
  const parsed = schema.safeParse(params);
  if (parsed.success) return { ok: true, value: params };
  return refuse({ kind: 'invalid_control_params', ...problemOf(parsed.error.issues[0]) });
}

function problemOf(issue: z.ZodError['issues'][number] | undefined): { member: string; problem: string } {
  if (issue?.code === 'unrecognized_keys') {
    return { member: issue.keys[0] ?? '', problem: 'does not belong to the other members' };
  }
  const member = String(issue?.path[0] ?? 'action');
  if (member === 'action') return { member, problem: 'must be toggle, pulse or trigger' };
  return { member, problem: issue?.message ?? '' };
}

/** The message for the device. `id` needs no JSON escaping and has at most 20 characters (field notes 33, 34). */
export function encodeControl({ params, holdSeconds, acceptedAtMs: time }: Sent, id: string): string {
  const whole = holdSeconds === undefined ? params : { ...params, holdSeconds };
  return JSON.stringify({ method: propertySetMethod, id, params: whole, time } satisfies PropertySet);
}

type Sent = { params: ControlParams; holdSeconds?: number; acceptedAtMs: number };
