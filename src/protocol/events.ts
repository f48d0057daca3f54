// Bodies of the messages to webhooks: what an event of a device says. Shapes only; domain/device/core/outgoing.ts makes them.
import { z } from 'zod';
import * as words from './vocabulary.ts';

const instant = z.iso.datetime().nullable();
const reason = (reasons: readonly string[]) => z.object({ reason: z.enum(reasons) });
const presence = z.object({ since: instant, lastOnlineAt: instant });
const settled = { commandId: z.string(), reason: z.string().nullable() };

export const eventDataSchemas: Record<words.EventType, z.ZodObject> = {
  'device.activated': reason(words.activationReasons),
  'device.online': presence,
  'device.offline': presence,
  'device.reported': z.object({ changes: z.record(z.string(), z.unknown()) }),
  'command.settled': z.object({
    ...settled,
    params: z.record(z.string(), z.unknown()),
    state: z.enum(words.commandStates),
    scheduleId: z.string().nullable(),
  }),
  'run.settled': z.object({
    ...settled,
    runId: z.string(),
    scheduleId: z.string(),
    name: z.string(),
    dueAt: z.iso.datetime(),
    outcome: z.enum(words.runOutcomes),
    commandId: z.string().nullable(),
  }),
  'device.claimed': reason(['claimed', 'transferred']),
  'device.released': reason(['released', 'claim_undone']),
  'member.changed': z.object({
    reason: z.enum(words.membershipChanges),
    email: z.string(),
    role: z.enum(words.memberRoles).nullable(),
  }),
};

const about = { deviceId: z.string() };

export function eventBodySchema(type: words.EventType) {
  const data = eventDataSchemas[type].extend({ ...about, number: z.int() });
  return z.object({ type: z.literal(type), timestamp: z.iso.datetime(), data });
}

/** In place of events that the device no longer had when the receiver could take them. */
export const gapBodySchema = z.object({
  type: z.literal('gap'),
  timestamp: z.iso.datetime(),
  data: z.object({ ...about, from: z.int(), to: z.int() }),
});
