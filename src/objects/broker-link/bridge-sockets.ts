// The sockets of bridges at their link: what each one's attachment holds, over a sleep of the object and under a newer version
// of it, and what is sent and closed. Decides nothing.
import { z } from 'zod';
import { log } from '../../log.ts';
import { stallSchema, type linkCloseReasons, type WorkerFrame } from '../../protocol/bridge.ts';
import { closeIfOpen, sendIfOpen } from '../calls/open-socket.ts';

const attachmentSchema = z.object({
  bridgeId: z.string().nullable(),
  instanceId: z.string(),
  spoolId: z.string().optional(),
  sessionDigest: z.string().optional(),
  role: z.enum(['active', 'standby']).nullable(),
  isBrokerConnected: z.boolean(),
  openedAtMs: z.number(),
  changedAtMs: z.number(),
  /** Why the bridge's uplink stands still, and since when; null while it moves. */
  stall: stallSchema.nullable().default(null),
  /** The shares that the bridge says it is active for. */
  activeShares: z.array(z.int()).default([]),
  avoidedUntilMs: z.number().default(0),
  /** It was active, is leaving the broker session, and has until then. */
  leavingUntilMs: z.number().nullable().default(null),
});
export type Attachment = z.infer<typeof attachmentSchema>;
type CloseCause = 'unreadable frame' | 'no hello' | 'silent' | (typeof linkCloseReasons)[keyof typeof linkCloseReasons];

/** Sockets whose attachments this version has written since it woke: checking them costs every publish. */
const written = new WeakSet<WebSocket>();

export function readAttachment(socket: WebSocket): Attachment {
  const attachment: unknown = socket.deserializeAttachment();
  return written.has(socket) ? (attachment as Attachment) : attachmentSchema.parse(attachment);
}

export function writeAttachment(socket: WebSocket, attachment: Attachment): void {
  socket.serializeAttachment(attachment);
  written.add(socket);
}

export function sendFrame(socket: WebSocket, frame: WorkerFrame): void {
  sendIfOpen(socket, JSON.stringify(frame));
}

export function closeBridge(socket: WebSocket, cause: CloseCause): void {
  log('warn', 'bridge disconnected', { bridgeId: readAttachment(socket).bridgeId, cause });
  closeIfOpen(socket, 1008, cause);
}
