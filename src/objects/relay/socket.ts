// One client socket of the relay: its attachment, which survives hibernation, and the codes it is answered with.
import type { RevokeCause } from '../../protocol/relay.ts';
import type { ErrorMessage } from '../../protocol/error-status.ts';
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

/** Contract 7. Frames have no HTTP status. */
export function relayCodeOf(message: ErrorMessage): number {
  return codes[message] ?? 400;
}

const codes: { [Message in ErrorMessage]?: 401 | 403 | 404 | 500 | 503 } = {
  unauthorized: 401,
  invalid_password: 401,
  invalid_client_id: 401,
  forbidden: 403,
  confirmation_required: 403,
  device_disabled: 403,
  product_disabled: 403,
  activation_not_allowed: 403,
  reactivation_not_allowed: 403,
  not_found: 404,
  device_not_found: 404,
  internal_error: 500,
  broker_unavailable: 500,
  unavailable: 503,
};
