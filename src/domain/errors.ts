// The closed union of error messages the service can answer, and the HTTP status of each (interface 7, decisions).
// Says nothing about how an error is worded or sent: src/http/on-error.ts is the one place that does.

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
} as const;

export type ErrorMessage = keyof typeof statusByMessage;
export type ErrorStatus = (typeof statusByMessage)[ErrorMessage];

export const errorMessages = Object.keys(statusByMessage) as [ErrorMessage, ...ErrorMessage[]];

export function statusOf(message: ErrorMessage): ErrorStatus {
  return statusByMessage[message];
}

/** What crosses an object or policy boundary instead of an exception: exceptions are for infrastructure only. */
export type Outcome<T> = { ok: true; value: T } | { ok: false; error: ErrorMessage; detail?: string };

/** A refusal a caller is told about. `detail` is appended to the message; it must hold nothing secret. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly code: ErrorMessage;
  readonly detail: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorMessage, options: { detail?: string; retryAfterSeconds?: number } = {}) {
    super(code);
    this.code = code;
    this.detail = options.detail;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The value of an outcome, or its refusal thrown as a ServiceError. */
export function unwrap<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new ServiceError(outcome.error, outcome);
  return outcome.value;
}
