// Requests of EMQX 5's HTTP authenticator, HTTP authorizer and rules (or webhooks) on client events: the members that
// are read here. Shapes only.
import { z } from 'zod';

const nameSchema = z.string().max(512);

export const emqxConnectSchema = z.object({
  clientid: nameSchema,
  username: nameSchema,
  password: nameSchema,
  /** Only for the events of the device: a login is never refused for it. */
  peerhost: z.string().max(64).optional().catch(undefined),
});

export const emqxAuthzSchema = z.object({
  username: nameSchema,
  topic: z.string().max(65_535),
  action: z.enum(['publish', 'subscribe']),
  /** Absent where the configured body leaves it out; a placeholder between quotes arrives as text. */
  retain: z.union([z.boolean(), z.enum(['true', 'false', '1', '0', 'undefined', ''])]).optional(),
});

/** Milliseconds, as a number or, from a body template with quotes, as text. */
const timeSchema = z.coerce.number().pipe(z.int().positive());

export const emqxEventSchema = z.discriminatedUnion('event', [
  z.object({ event: z.literal('client.connected'), clientid: nameSchema, connected_at: timeSchema }),
  z.object({
    event: z.literal('client.disconnected'),
    clientid: nameSchema,
    /** Not every version says which session ended: then the template's placeholder arrives as some other text. */
    connected_at: z.union([timeSchema, z.unknown().transform(() => undefined)]).optional(),
    disconnected_at: timeSchema,
    reason: z.string().max(256).default('unknown'),
  }),
]);
