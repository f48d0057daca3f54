// What the relay knows of one client socket: an attachment that outlives hibernation, decoded through a schema.
import { z } from 'zod';
import type { ErrorMessage } from '../protocol/vocabulary.ts';
import type { RelayReply } from '../protocol/relay.ts';

const attachmentSchema = z.object({
  openedAtMs: z.number(),
  failedAuths: z.number(),
  who: z
    .discriminatedUnion('kind', [
      z.object({
        kind: z.literal('device'),
        productKey: z.string(),
        deviceId: z.string(),
        /** How often the device's credentials had been revoked when it signed in. */
        revocations: z.number(),
      }),
      z.object({ kind: z.literal('user'), userId: z.number(), expiresAtMs: z.number() }),
    ])
    .nullable(),
  filters: z.array(z.string()),
  /** Closed by this side, the client has not answered yet. */
  isEnded: z.boolean(),
});

export type RelayClient = z.infer<typeof attachmentSchema>;

/** The platform refuses larger attachments. */
export const maxAttachmentBytes = 16_384;

export function readClient(socket: WebSocket): RelayClient {
  return attachmentSchema.parse(socket.deserializeAttachment());
}

/** False where it does not fit: a socket with so many long filters has to open a second one. */
export function writeClient(socket: WebSocket, client: RelayClient): boolean {
  if (JSON.stringify(client).length > maxAttachmentBytes - 1024) return false;
  socket.serializeAttachment(client);
  return true;
}

export function reply(socket: WebSocket, message: RelayReply): void {
  sendQuietly(socket, JSON.stringify(message));
}

/** False where the socket is closed already. */
export function sendQuietly(socket: WebSocket, text: string): boolean {
  try {
    socket.send(text);
    return true;
  } catch {
    return false;
  }
}

export function closeQuietly(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // Closed already.
  }
}

/** The `code` of a refusal; frames have no HTTP status, the numbers are those of contract 7. */
export function relayCodeOf(message: ErrorMessage): 400 | 401 | 403 | 404 | 500 {
  switch (message) {
    case 'unauthorized':
    case 'invalid_password':
    case 'invalid_client_id':
      return 401;
    case 'forbidden':
    case 'device_disabled':
    case 'product_disabled':
      return 403;
    case 'not_found':
    case 'device_not_found':
      return 404;
    case 'internal_error':
    case 'broker_unavailable':
      return 500;
    default:
      return 400;
  }
}
