// One client socket of the relay: its attachment, which survives hibernation, and the codes it is answered with.
import type { RevokeCause } from '../../protocol/relay.ts';
import { statusByError, type ErrorMessage } from '../../protocol/error-status.ts';
import { relayClientSchema, type RelayClient } from './rules.ts';

/** Set by the Worker on the request that opens a socket: the client's address, encoded as a part of a URL. */
export const relayAddressHeader = 'X-Relay-Client-Address';

/** Why this side closes a socket; the client gets it as the reason. */
export type CloseCause =
  | RevokeCause
  | 'frame larger than 16 KiB'
  | 'MQTT is at /mqtt/{deviceId}'
  | 'API key deleted'
  | 'account disabled'
  | 'not authenticated in time'
  | 'token expired'
  | 'too many frames'
  | 'too many sockets of this device'
  | 'too many sockets of this user'
  | 'too many sockets that have not authenticated'
  | 'too much unread'
  | 'too many failed authentications';

/** The platform refuses larger attachments. */
export const maxAttachmentBytes = 16_384;

export function readClient(socket: WebSocket): RelayClient {
  return relayClientSchema.parse(socket.deserializeAttachment());
}

/** False if it does not fit: the client needs a second socket for that many long filters. */
export function writeClient(socket: WebSocket, client: RelayClient): boolean {
  if (JSON.stringify(client).length > maxAttachmentBytes - 1024) return false;
  socket.serializeAttachment(client);
  return true;
}

/** Contract 7, as over HTTP. Frames have no code of their own for too many requests. */
export function relayCodeOf(message: ErrorMessage): number {
  return message === 'too_many_requests' ? 400 : statusByError[message];
}
