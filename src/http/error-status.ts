// The HTTP status of each error message (contract 7, decision: envelope). The body's `code` is the same number.
import type { Refusal } from '../domain/refusal.ts';
import type { ErrorMessage } from '../protocol/vocabulary.ts';

const statusByMessage = {
  invalid_request: 400,
  invalid_product_key: 400,
  device_not_activated: 400,
  no_control_params: 400,
  invalid_control_params: 400,
  email_exists: 400,
  username_exists: 400,
  weak_password: 400,
  product_key_exists: 400,
  product_has_devices: 400,
  too_many_api_keys: 400,
  unauthorized: 401,
  invalid_password: 401,
  invalid_client_id: 401,
  forbidden: 403,
  product_disabled: 403,
  device_disabled: 403,
  not_found: 404,
  device_not_found: 404,
  too_many_requests: 429,
  internal_error: 500,
  broker_unavailable: 500,
} as const satisfies Record<ErrorMessage, number>;

export type ErrorStatus = (typeof statusByMessage)[ErrorMessage];

export function statusOf(message: ErrorMessage): ErrorStatus {
  return statusByMessage[message];
}

/** 413 tells the bridge to halve a batch; the contract's own routes never answer it. */
export function statusOfRefusal(refusal: Refusal, message: ErrorMessage): ErrorStatus | 413 {
  const isLargeBatch = refusal.kind === 'limit_reached' && refusal.limit.name === 'uplink_batch_bytes';
  return isLargeBatch ? 413 : statusOf(message);
}
