// The closed lists of words that appear on the wire. What a word means is decided in domain/.

/** contract 2.4: only `readonly` is a rule of the service; the others tell applications which screen to show. */
export const controlModes = ['toggle', 'pulse', 'dimmer', 'readonly', 'generic'] as const;

/** contract 3: the text of each status code, by its code. */
export const deviceStatusTexts = ['inactive', 'online', 'offline', 'disabled'] as const;
export type DeviceStatusText = (typeof deviceStatusTexts)[number];

export const commandStates = [
  'accepted',
  'sent',
  'waiting',
  'acknowledged',
  'confirmed',
  'undelivered',
  'expired',
  'failed',
  'cancelled',
] as const;
export type CommandState = (typeof commandStates)[number];

/** Why a device counts as online or offline. */
export const transitionReasons = [
  'connected',
  'disconnected',
  'authenticated',
  'announced',
  'message',
  'silence',
  'revoked',
] as const;
export type TransitionReason = (typeof transitionReasons)[number];

/** Why a known device was refused at login. */
export const loginRefusalReasons = ['wrong_password', 'wrong_client_id', 'disabled', 'revoked'] as const;
export type LoginRefusalReason = (typeof loginRefusalReasons)[number];

/** Error messages of contract 7 and decision: envelope, each with the HTTP status that is also its body's `code`. */
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
export type ErrorMessage = keyof typeof statusByError;
