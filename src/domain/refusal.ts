// Why a request, login, frame or message is refused: one closed union with the data for the log, and the one switch that
// turns it into the wire's message. Knows no HTTP status and no transport. Words of unions are snake_case; a limit is named
// like its setting or its constant.
import type {
  ActivationRefusalReason,
  ErrorMessage,
  GuestLinkState,
  LoginRefusalReason,
} from '../protocol/vocabulary.ts';
import type { PublishFailure } from './publish-outcome.ts';

/** A wrong one whose name ends in `_password` is `invalid_password` on the wire. */
type Credential =
  | 'access_token'
  | 'refresh_token'
  | 'session'
  | 'api_key'
  | 'account_password'
  | 'messaging_password'
  /** The bridge secret as the password of the bridge's own login at the broker. */
  | 'bridge_password'
  | 'bridge_secret'
  | 'hook_secret'
  | 'gateway_secret'
  | 'operator_secret';

type CredentialProblem = 'missing' | 'malformed' | 'wrong' | 'expired' | 'revoked' | 'reused' | 'unknown_account';

/** A socket beyond it is not opened. */
export type RelaySocketLimit = 'relaySocketsPerAddress' | 'relaySocketsPerShard' | 'relayUnauthenticatedPerAddress';

export type Limit = {
  name:
    | 'requestBodyBytes'
    | 'uplinkBatchBytes'
    | 'relayAttachmentBytes'
    | 'apiKeysPerUser'
    | 'productsPerUser'
    | 'productKeysPerUser'
    | 'devicesPerProduct'
    | 'claimTokensPerUser'
    | 'transferOffersPerUser'
    | 'pagedDevices'
    | 'membersPerDevice'
    | 'guestLinksPerDevice'
    | 'relaySubscriptions'
    | 'relaySnapshotDevices'
    | 'edgeUnconnectedPerAddress'
    | RelaySocketLimit
    | 'relayBlockSeconds';
  max: number;
};

export type ObjectName =
  'DeviceSession' | 'RelayGateway' | 'FleetDirectory' | 'BrokerLink' | 'ProjectionWriter' | 'ProductPropagator';
/** How a call to an object failed: `retryable` may work at once, `overloaded` must not be repeated now. */
export type ObjectFailure = 'retryable' | 'overloaded' | 'broken';

export type Refusal =
  /** A member of what was sent is missing or wrong; `problem` is shown to the caller. */
  | { kind: 'invalid_input'; path: string; problem: string }
  /** The body broke off, or its chunks are malformed. */
  | { kind: 'body_not_received'; cause: string }
  | { kind: 'limit_reached'; limit: Limit }
  | { kind: 'rate_limited'; limit: string; retryAfterSeconds: number }
  | { kind: 'credential_refused'; credential: Credential; problem: CredentialProblem; deviceId?: string }
  | { kind: 'wrong_client_id'; deviceId?: string }
  | {
      kind: 'not_found';
      what:
        | 'route'
        | 'product'
        | 'command'
        | 'api_key'
        | 'device'
        | 'member'
        | 'invitation'
        | 'guest_link'
        | 'account'
        | 'session'
        | 'transfer'
        | 'serial'
        | 'claim_token';
      id?: string;
    }
  /** Of an activation. */
  | { kind: 'unknown_product_key'; productKey: string }
  | { kind: 'not_owner'; of: 'product' | 'device' | 'api_key' | 'claim_token'; id: string }
  /** An owner cannot be invited to the own device. */
  | { kind: 'is_owner'; deviceId: string }
  /** By domain/access.ts: the caller's role on the device does not include the action. */
  | { kind: 'role_lacks_right'; role: string; action: string; id: string }
  /** The API key has not the scope, or is for another product. */
  | { kind: 'key_lacks_right'; lacks: 'scope' | 'product'; action: string }
  | { kind: 'topic_forbidden'; action: 'publish' | 'subscribe' | 'receive'; topic: string }
  /** A queue or exchange of RabbitMQ. */
  | { kind: 'resource_forbidden'; resource: 'queue' | 'exchange'; name: string; permission: string }
  | { kind: 'product_readonly'; productKey: string }
  | { kind: 'product_disabled'; productKey: string }
  | { kind: 'device_disabled'; deviceId: string }
  | { kind: 'account_disabled'; userId: number }
  | { kind: 'sign_up_closed' }
  /** A registered serial that has not activated, or a device whose session was lost. */
  | { kind: 'device_not_activated'; deviceId: string }
  /** Unknown, expired, or used by another serial. */
  | { kind: 'claim_token_refused' }
  /** `wrong`: no link of this service. `revoked`: or never made, or made by somebody who may not share the device any more. */
  | { kind: 'guest_link_refused'; because: 'wrong' | 'revoked' | Exclude<GuestLinkState, 'open'> }
  /** The product takes no new serials, or none that was not registered. */
  | { kind: 'activation_refused'; productKey: string; policy: 'registered' | 'closed' }
  | { kind: 'reactivation_refused'; deviceId: string; because: ActivationRefusalReason }
  | { kind: 'name_taken'; name: 'email' | 'username' | 'product_key' }
  | { kind: 'weak_password'; minLength: number }
  | { kind: 'product_has_devices'; productKey: string }
  | { kind: 'no_control_params' }
  | { kind: 'invalid_control_params'; member: string; problem: string }
  | { kind: 'not_published'; because: PublishFailure }
  | { kind: 'internal_error' }
  | { kind: 'object_failed'; object: ObjectName; id: string; operation: string; failure: ObjectFailure };

/** Returned by objects and policies instead of an exception, which calls between objects do not carry whole. */
export type Outcome<T> = { ok: true; value: T } | { ok: false; refusal: Refusal };

export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.kind);
    this.refusal = refusal;
  }
}

export function unwrap<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new RefusedError(outcome.refusal);
  return outcome.value;
}

export function credentialRefused(credential: Credential, problem: CredentialProblem): Refusal {
  return { kind: 'credential_refused', credential, problem };
}

export function limitReached(name: Limit['name'], max: number): RefusedError {
  return new RefusedError({ kind: 'limit_reached', limit: { name, max } });
}

export function accept<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse(refusal: Refusal): { ok: false; refusal: Refusal } {
  return { ok: false, refusal };
}

/** What the caller is told of a refusal; `detail` is appended to the message. */
export type WireError = { message: ErrorMessage; detail?: string; retryAfterSeconds?: number };

export function wireErrorOf(refusal: Refusal): WireError {
  switch (refusal.kind) {
    case 'invalid_input':
      return { message: 'invalid_request', detail: `${refusal.path}: ${refusal.problem}` };
    case 'is_owner':
      return { message: 'invalid_request', detail: 'the device is your own' };
    case 'body_not_received':
      return { message: 'invalid_request', detail: 'body: not received whole' };
    case 'limit_reached':
      return wireErrorOfLimit(refusal.limit);
    case 'rate_limited':
      return { message: 'too_many_requests', retryAfterSeconds: refusal.retryAfterSeconds };
    case 'credential_refused':
      return { message: refusal.credential.endsWith('_password') ? 'invalid_password' : 'unauthorized' };
    case 'wrong_client_id':
      return { message: 'invalid_client_id' };
    case 'not_found':
      return { message: refusal.what === 'device' ? 'device_not_found' : 'not_found' };
    case 'guest_link_refused':
      return { message: 'not_found' };
    case 'unknown_product_key':
      return { message: 'invalid_product_key' };
    case 'not_owner':
    case 'role_lacks_right':
    case 'key_lacks_right':
    case 'topic_forbidden':
    case 'resource_forbidden':
    case 'product_readonly':
      return { message: 'forbidden' };
    case 'account_disabled':
      return { message: 'forbidden', detail: 'the account is disabled' };
    case 'sign_up_closed':
      return { message: 'forbidden', detail: 'sign-up is closed' };
    case 'claim_token_refused':
      return { message: 'invalid_claim_token' };
    case 'activation_refused':
      return { message: 'activation_not_allowed' };
    case 'reactivation_refused':
      return { message: 'reactivation_not_allowed' };
    case 'product_disabled':
    case 'device_disabled':
    case 'device_not_activated':
    case 'weak_password':
    case 'product_has_devices':
    case 'no_control_params':
      return { message: refusal.kind };
    case 'invalid_control_params':
      return { message: refusal.kind, detail: `${refusal.member}: ${refusal.problem}` };
    case 'name_taken':
      return { message: `${refusal.name}_exists` };
    case 'not_published':
      return { message: 'broker_unavailable' };
    case 'object_failed':
    case 'internal_error':
      return { message: 'internal_error' };
  }
}

/** The word for a refused login in the events of a device; undefined for refusals that are not about its login. */
export function loginRefusalReasonOf(refusal: Refusal): LoginRefusalReason | undefined {
  if (refusal.kind === 'wrong_client_id') return 'wrong_client_id';
  if (refusal.kind === 'device_disabled') return 'disabled';
  if (refusal.kind !== 'credential_refused') return undefined;
  return refusal.problem === 'revoked' ? 'revoked' : 'wrong_password';
}

function wireErrorOfLimit(limit: Limit): WireError {
  switch (limit.name) {
    case 'apiKeysPerUser':
      return { message: 'too_many_api_keys' };
    case 'productsPerUser':
      return { message: 'too_many_products' };
    case 'productKeysPerUser':
      return { message: 'too_many_products', detail: 'those that were deleted count, too' };
    case 'claimTokensPerUser':
      return { message: 'too_many_claim_tokens' };
    case 'transferOffersPerUser':
      return { message: 'too_many_transfers' };
    case 'devicesPerProduct':
      return { message: 'too_many_devices' };
    case 'membersPerDevice':
      return { message: 'too_many_members' };
    case 'guestLinksPerDevice':
      return { message: 'too_many_guest_links' };
    case 'pagedDevices':
      return { message: 'invalid_request', detail: `page: \`after\` goes beyond the first ${limit.max} devices` };
    case 'requestBodyBytes':
    case 'uplinkBatchBytes':
      return { message: 'invalid_request', detail: `body: larger than ${limit.max / 1024} KiB` };
    case 'relaySubscriptions':
      return { message: 'invalid_request', detail: `topic: at most ${limit.max} subscriptions a socket` };
    case 'relaySnapshotDevices':
      return { message: 'invalid_request', detail: `snapshot: of at most ${limit.max} devices` };
    case 'edgeUnconnectedPerAddress':
    case 'relaySocketsPerAddress':
    case 'relaySocketsPerShard':
    case 'relayUnauthenticatedPerAddress':
      return { message: 'too_many_requests', retryAfterSeconds: 10 };
    case 'relayBlockSeconds':
      return { message: 'too_many_requests', retryAfterSeconds: limit.max };
    case 'relayAttachmentBytes':
      return { message: 'invalid_request', detail: 'topic: no room for another one on this socket' };
  }
}
