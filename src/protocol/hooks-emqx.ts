// Requests of EMQX 5's HTTP authenticator and client webhooks, as far as they are read here. Shapes only.
import { z } from 'zod';

export const emqxConnectSchema = z.object({
  clientid: z.string().max(512),
  username: z.string().max(512),
  password: z.string().max(512),
});

const timeSchema = z.coerce.number().pipe(z.int().nonnegative());

export const emqxEventSchema = z.discriminatedUnion('event', [
  z.object({ event: z.literal('client.connected'), clientid: z.string().max(512), connected_at: timeSchema }),
  z.object({
    event: z.literal('client.disconnected'),
    clientid: z.string().max(512),
    /** Not every version says which session ended. */
    connected_at: timeSchema.optional(),
    disconnected_at: timeSchema,
    reason: z.string().max(256).default('unknown'),
  }),
]);
