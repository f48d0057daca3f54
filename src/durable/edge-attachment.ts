// What the socket of an edge session carries through a sleep of its object: read once a wake, through a schema.
import { z } from 'zod';
import type { EdgeSession } from '../domain/edge/session.ts';

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
  /** The beginning of a packet whose end has not come; null where it was too long to be kept. */
  partial: z.instanceof(Uint8Array).nullable(),
});
export type EdgeAttachment = z.infer<typeof attachmentSchema>;

/** The platform takes 16 384 bytes: subscriptions and will have the rest. */
const maxPartialBytes = 4_096;

/** Undefined where it cannot be read. */
export function readAttachment(socket: WebSocket): EdgeAttachment | undefined {
  return attachmentSchema.safeParse(socket.deserializeAttachment()).data;
}

/** @param rest bytes that were received and not read */
export function writeAttachment(socket: WebSocket, kept: Omit<EdgeAttachment, 'partial'>, rest: Uint8Array): void {
  // A copy: a view would be written with all of its buffer.
  const partial = rest.length > maxPartialBytes ? null : rest.slice();
  socket.serializeAttachment({ ...kept, partial } satisfies EdgeAttachment);
}
