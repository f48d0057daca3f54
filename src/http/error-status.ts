// The HTTP status of each error message (contract 7, decision: envelope). The body's `code` is the same number.
import type { ErrorMessage } from '../protocol/vocabulary.ts';

export const statusByError = {
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
  too_many_products: 400,
  too_many_devices: 400,
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
