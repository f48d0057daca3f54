// Why a request, login, frame or message is refused: one closed union with the data for the log, and the one switch that
// turns it into the wire's message. Knows no HTTP status and no transport. Words of unions are snake_case; a limit is named
// like its setting or its constant.
import type { ErrorMessage } from '../protocol/error-status.ts';
import type { ActivationRefusalReason, GuestLinkState, LoginRefusalReason } from '../protocol/vocabulary.ts';
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

export type RelaySocketLimit = 'relaySocketsPerAddress' | 'relaySocketsPerShard' | 'relayUnauthenticatedPerAddress';

export type Limit = { name: keyof ReturnType<typeof wireErrorsOfLimits>; max: number };

/** How a call to an object failed: `retryable` may work at once, `overloaded` must not be repeated now. */
export type ObjectFailure = 'retryable' | 'overloaded' | 'broken';

export type Refusal =
  | { kind: 'invalid_input'; path: string; problem: string }
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
        | 'schedule'
        | 'lease'
        | 'witness'
        | 'account'
        | 'session'
        | 'transfer'
        | 'serial'
        | 'claim_token'
        | 'sender'
        | 'webhook'
        | 'push_subscription'
        | 'group'
        | 'scene'
        | 'bulk'
        | 'firmware'
        | 'firmware_key'
        | 'campaign'
        | 'update';
      id?: string;
    }
  | { kind: 'unknown_product_key'; productKey: string }
  | { kind: 'not_owner'; of: 'product' | 'device' | 'api_key' | 'claim_token'; id: string }
  | { kind: 'is_owner'; deviceId: string }
  /** The caller's role on the device does not include the action (access.ts). */
  | { kind: 'role_lacks_right'; role: string; action: string; id: string }
  /** The API key has not the scope, or is for another product. */
  | { kind: 'key_lacks_right'; lacks: 'scope' | 'product' | 'device'; action: string }
  | { kind: 'topic_forbidden'; action: 'publish' | 'subscribe'; topic: string }
  | { kind: 'resource_forbidden'; resource: 'queue' | 'exchange'; name: string; permission: string }
  | { kind: 'product_readonly'; productKey: string }
  | { kind: 'product_disabled'; productKey: string }
  | { kind: 'device_disabled'; deviceId: string }
  | { kind: 'account_disabled'; userId: number }
  | { kind: 'email_not_verified'; userId: number }
  | { kind: 'sign_up_closed' }
  /** Its user has to show the password in this session first. */
  | { kind: 'confirmation_required' }
  /** A page of another site had a visitor's browser send it. */
  | { kind: 'cross_site'; origin: string }
  /** A registered serial that has not activated, or a device whose session was lost. */
  | { kind: 'device_not_activated'; deviceId: string }
  | { kind: 'claim_token_refused' }
  /** Of a serial number that exists, or of none: the caller is not told. */
  | { kind: 'claim_code_refused' }
  /** The serial number has a claim code, which the maker of the claim token has not shown. */
  | { kind: 'claim_code_required' }
  /** `wrong`: no link of this service. `revoked`: or never made, or made by somebody who may not share the device any more. */
  | { kind: 'guest_link_refused'; because: 'wrong' | 'revoked' | Exclude<GuestLinkState, 'open'> }
  | { kind: 'activation_refused'; productKey: string; policy: 'registered' | 'closed' }
  | { kind: 'reactivation_refused'; deviceId: string; because: ActivationRefusalReason }
  | { kind: 'name_taken'; name: 'email' | 'username' | 'product_key' }
  | { kind: 'weak_password'; because: 'short' | 'common' }
  | { kind: 'product_has_devices'; productKey: string }
  | { kind: 'firmware_exists'; version: string }
  /** A campaign that has not ended brings it. */
  | { kind: 'firmware_in_use'; version: string }
  | { kind: 'firmware_refused'; because: FirmwareProblem }
  | { kind: 'campaign_open'; productKey: string }
  | { kind: 'campaign_over'; campaignId: string }
  /** It installs new firmware. */
  | { kind: 'device_restarting'; deviceId: string }
  /** Its maker marked the update as relevant to security. */
  | { kind: 'update_needed'; version: string }
  | { kind: 'campaign_paused' }
  | { kind: 'update_ended' }
  /** Nobody has seen it lately, or since the last command. */
  | { kind: 'state_unknown'; deviceId: string }
  | { kind: 'no_control_params' }
  | { kind: 'invalid_control_params'; member: string; problem: string }
  | { kind: 'not_published'; because: PublishFailure; commandId: string }
  | { kind: 'internal_error' }
  /** D1 or R2 is away. */
  | { kind: 'storage_unavailable'; cause?: string }
  /** `object`: its class, for the log. */
  | { kind: 'object_failed'; object: string; id: string; operation: string; failure: ObjectFailure };

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

export function rateLimited(limit: string, retryAfterSeconds: number): RefusedError {
  return new RefusedError({ kind: 'rate_limited', limit, retryAfterSeconds });
}

export function invalidInput(path: string, problem: string): RefusedError {
  return new RefusedError({ kind: 'invalid_input', path, problem });
}

export function notFound(what: Extract<Refusal, { kind: 'not_found' }>['what'], id?: string): RefusedError {
  return new RefusedError({ kind: 'not_found', what, ...(id !== undefined && { id }) });
}

export function accept<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse(refusal: Refusal): { ok: false; refusal: Refusal } {
  return { ok: false, refusal };
}

/** A decision that changes nothing. */
export function refused<State>(state: State, refusal: Refusal) {
  return { state, result: refuse(refusal) };
}

export type WireError = { message: ErrorMessage; detail?: string; retryAfterSeconds?: number };

export function wireErrorOf(refusal: Refusal): WireError {
  switch (refusal.kind) {
    case 'invalid_input':
      return { message: 'invalid_request', detail: `${refusal.path}: ${refusal.problem}` };
    case 'limit_reached':
      return wireErrorsOfLimits(refusal.limit.max)[refusal.limit.name];
    case 'rate_limited':
      return { message: 'too_many_requests', retryAfterSeconds: refusal.retryAfterSeconds };
    case 'credential_refused':
      if (refusal.credential.endsWith('_password')) return { message: 'invalid_password' };
      return refusal.credential === 'session' ? sessionRefused(refusal.problem) : { message: 'unauthorized' };
    case 'not_found':
      return { message: refusal.what === 'device' ? 'device_not_found' : 'not_found' };
    case 'invalid_control_params':
      return { message: refusal.kind, detail: `${refusal.member}: ${refusal.problem}` };
    case 'firmware_refused':
      return { message: 'invalid_firmware', detail: firmwareProblems[refusal.because] };
    case 'weak_password':
      return {
        message: refusal.kind,
        ...(refusal.because === 'common' && { detail: 'it is among the 10 000 most common' }),
      };
    case 'name_taken':
      return { message: `${refusal.name}_exists` };
    default:
      return hasOtherWord(refusal.kind) ? wireErrors[refusal.kind] : { message: refusal.kind };
  }
}

function hasOtherWord(kind: Refusal['kind']): kind is keyof typeof wireErrors {
  return Object.hasOwn(wireErrors, kind);
}

function sessionRefused(problem: CredentialProblem): WireError {
  if (problem === 'revoked') return { message: 'unauthorized', detail: 'the session has ended' };
  if (problem === 'unknown_account') return { message: 'unauthorized', detail: 'the account is disabled or deleted' };
  return { message: 'unauthorized' };
}

const firmwareProblems = {
  signature: 'signature: of none of the keys of the product',
  product: 'manifest: of another product',
  size: 'image: has not the size of the manifest',
  hash: 'image: has not the SHA-256 of the manifest',
  no_image: 'image: not uploaded',
};
export type FirmwareProblem = keyof typeof firmwareProblems;

const forbidden: WireError = { message: 'forbidden' };

/** Refusals for which the wire has another word, or a detail. Their data is for the log alone. */
const wireErrors = {
  is_owner: { message: 'invalid_request', detail: 'the device is your own' },
  body_not_received: { message: 'invalid_request', detail: 'body: not received whole' },
  wrong_client_id: { message: 'invalid_client_id' },
  guest_link_refused: { message: 'not_found' },
  unknown_product_key: { message: 'invalid_product_key' },
  not_owner: forbidden,
  role_lacks_right: forbidden,
  key_lacks_right: forbidden,
  topic_forbidden: forbidden,
  resource_forbidden: forbidden,
  product_readonly: forbidden,
  account_disabled: { message: 'forbidden', detail: 'the account is disabled' },
  sign_up_closed: { message: 'forbidden', detail: 'sign-up is closed' },
  cross_site: { message: 'forbidden', detail: 'sent by a page of another site' },
  claim_token_refused: { message: 'invalid_claim_token' },
  claim_code_refused: { message: 'invalid_claim_code' },
  activation_refused: { message: 'activation_not_allowed' },
  reactivation_refused: { message: 'reactivation_not_allowed' },
  not_published: { message: 'broker_unavailable' },
  campaign_paused: { message: 'campaign_paused', retryAfterSeconds: 60 },
  object_failed: { message: 'internal_error' },
  storage_unavailable: { message: 'unavailable', retryAfterSeconds: 5 },
} satisfies { [Kind in Refusal['kind']]?: WireError };

/** The word for a refused login in the events of a device; undefined for refusals that are not about its login. */
export function loginRefusalReasonOf(refusal: Refusal): LoginRefusalReason | undefined {
  if (refusal.kind === 'wrong_client_id') return 'wrong_client_id';
  if (refusal.kind === 'device_disabled') return 'disabled';
  if (refusal.kind !== 'credential_refused') return undefined;
  return refusal.problem === 'revoked' ? 'revoked' : 'wrong_password';
}

const tooManySockets: WireError = { message: 'too_many_requests', retryAfterSeconds: 10 };

function wireErrorsOfLimits(max: number) {
  const tooLarge: WireError = { message: 'invalid_request', detail: `body: larger than ${max / 1024} KiB` };
  return {
    apiKeysPerUser: { message: 'too_many_api_keys' },
    webhooksPerUser: { message: 'too_many_webhooks' },
    pushSubscriptionsPerUser: { message: 'too_many_push_subscriptions' },
    groupsPerUser: { message: 'too_many_groups' },
    scenesPerUser: { message: 'too_many_scenes' },
    firmwareKeysPerProduct: { message: 'too_many_firmware_keys' },
    firmwarePerProduct: { message: 'too_much_firmware' },
    campaignsPerProduct: { message: 'too_many_campaigns' },
    productsPerUser: { message: 'too_many_products' },
    productKeysPerUser: { message: 'too_many_products', detail: 'those that were deleted count, too' },
    claimTokensPerUser: { message: 'too_many_claim_tokens' },
    transferOffersPerUser: { message: 'too_many_transfers' },
    devicesPerProduct: { message: 'too_many_devices' },
    membersPerDevice: { message: 'too_many_members' },
    invitationsPerSender: { message: 'too_many_invitations' },
    invitationsPerRecipient: { message: 'too_many_invitations', detail: 'of this e-mail' },
    guestLinksPerDevice: { message: 'too_many_guest_links' },
    schedulesPerDevice: { message: 'too_many_schedules' },
    watchersPerDevice: { message: 'too_many_witnesses', detail: `at most ${max} devices may watch one` },
    oneShotsPerDevice: { message: 'too_many_schedules', detail: `at most ${max} that run once` },
    pagedDevices: { message: 'invalid_request', detail: `page: \`after\` goes beyond the first ${max} devices` },
    requestBodyBytes: tooLarge,
    uplinkBatchBytes: tooLarge,
    relaySubscriptions: { message: 'invalid_request', detail: `topic: at most ${max} subscriptions a socket` },
    relaySnapshotDevices: { message: 'invalid_request', detail: `snapshot: of at most ${max} devices` },
    directUnconnectedPerAddress: tooManySockets,
    relaySocketsPerAddress: tooManySockets,
    relaySocketsPerShard: tooManySockets,
    relayUnauthenticatedPerAddress: tooManySockets,
    relayBlockSeconds: { message: 'too_many_requests', retryAfterSeconds: max },
    relayAttachmentBytes: { message: 'invalid_request', detail: 'topic: no room for another one on this socket' },
  } satisfies Record<string, WireError>;
}
