// One client socket of the relay: its attachment, which survives hibernation, and the codes it is answered with.
import type { RevokeCause } from '../../domain/revoke-cause.ts';
import type { ErrorMessage } from '../../protocol/vocabulary.ts';
import { relayClientSchema, type RelayClient } from './rules.ts';

/** Set by the Worker on the request that opens a socket: the client's address, encoded as a part of a URL. */
export const relayAddressHeader = 'X-Relay-Client-Address';

/** Why this side closes a socket; the client gets it as the reason. */
export type CloseCause =
  | RevokeCause
  | 'frame larger than 16 KiB'
  | 'API key deleted'
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

/** False where it does not fit: the client needs a second socket for that many long filters. */
export function writeClient(socket: WebSocket, client: RelayClient): boolean {
  if (JSON.stringify(client).length > maxAttachmentBytes - 1024) return false;
  socket.serializeAttachment(client);
  return true;
}

/** The `code` of a refusal. Frames have no HTTP status; the numbers are those of contract 7, with 400 for all others. */
export function relayCodeOf(message: ErrorMessage): 400 | 401 | 403 | 404 | 500 {
  switch (message) {
    case 'unauthorized':
    case 'invalid_password':
    case 'invalid_client_id':
      return 401;
    case 'forbidden':
    case 'device_disabled':
    case 'product_disabled':
    case 'activation_not_allowed':
    case 'reactivation_not_allowed':
      return 403;
    case 'not_found':
    case 'device_not_found':
      return 404;
    case 'internal_error':
    case 'broker_unavailable':
      return 500;
    case 'invalid_request':
    case 'invalid_product_key':
    case 'device_not_activated':
    case 'invalid_claim_token':
    case 'too_many_claim_tokens':
    case 'too_many_transfers':
    case 'too_many_guest_links':
    case 'no_control_params':
    case 'invalid_control_params':
    case 'email_exists':
    case 'username_exists':
    case 'weak_password':
    case 'product_key_exists':
    case 'product_has_devices':
    case 'too_many_api_keys':
    case 'too_many_products':
    case 'too_many_devices':
    case 'too_many_members':
    case 'too_many_requests':
      return 400;
  }
}
