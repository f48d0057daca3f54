// What the socket of an edge session carries through a sleep of its object: read once a wake, through a schema. Not the
// beginning of a packet: the timer for its rest keeps the object awake.
import { z } from 'zod';
import type { EdgeSession } from '../../../domain/direct/session.ts';

const sessionSchema: z.ZodType<EdgeSession> = z.object({
  level: z.literal([4, 5]),
  startedAtMs: z.number(),
  keepAliveSeconds: z.number(),
  will: z.string().nullable(),
  subscriptions: z.array(z.object({ filter: z.string(), qos: z.literal([0, 1]), isNoLocal: z.boolean() })),
  lastPacketAtMs: z.number(),
  receiveMaximum: z.number(),
  maxPacketBytes: z.number(),
  lastPacketId: z.number(),
  inFlight: z.array(z.object({ packetId: z.number(), commandId: z.string().nullable() })),
  unreadBytes: z.number(),
});

const attachmentSchema = z.object({
  /** `ended`: closed by this side, and the client has not answered yet. */
  phase: z.enum(['connecting', 'open', 'ended']),
  openedAtMs: z.number(),
  address: z.string(),
  session: sessionSchema.nullable(),
});
export type EdgeAttachment = z.infer<typeof attachmentSchema>;

export function readAttachment(socket: WebSocket): EdgeAttachment | undefined {
  return attachmentSchema.safeParse(socket.deserializeAttachment()).data;
}

/** The platform takes 16 384 bytes: `directLimits` keep a session within that. */
export function writeAttachment(socket: WebSocket, attachment: EdgeAttachment): void {
  socket.serializeAttachment(attachment);
}
