// The closed lists of words that appear on the wire, in snake_case. What a word means is decided in domain/.

/** contract 2.4: only `readonly` is a rule of the service; the others tell applications which screen to show. */
export const controlModes = ['toggle', 'pulse', 'dimmer', 'readonly', 'generic'] as const;

export const keyScopes = ['read', 'control', 'manage'] as const;

export const memberRoles = ['operator', 'viewer'] as const;
/** What somebody is to a device: `product_owner` of a device that another user has claimed (domain/access.ts). */
export const deviceRoles = ['owner', ...memberRoles, 'product_owner'] as const;

export const activationPolicies = ['open', 'registered', 'closed'] as const;

export const reactivationPolicies = ['open', 'owner', 'secret', 'never'] as const;
export type ReactivationPolicy = (typeof reactivationPolicies)[number];

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

export const transitionReasons = [
  'connected',
  'disconnected',
  'authenticated',
  'announced',
  'message',
  'silence',
  'unconfirmed',
  'revoked',
] as const;
export type TransitionReason = (typeof transitionReasons)[number];

/** How a session at the edge ended; the detail of the event `disconnected`. The first three are the device's doing. */
export type EdgeEndReason =
  | 'clean'
  | 'lost'
  | 'with_will'
  | 'keep_alive'
  | 'deployed'
  | 'taken_over'
  | 'revoked'
  | 'disabled'
  | 'malformed_packet'
  | 'protocol_error'
  | 'packet_too_large'
  | 'packet_unfinished'
  | 'text_frame'
  | 'topic_forbidden'
  | 'topic_invalid'
  | 'qos_not_supported'
  | 'retain_not_supported'
  | 'topic_alias_invalid'
  | 'subscription_ids_not_supported'
  | 'receive_maximum_exceeded'
  | 'too_many_packets'
  | 'too_much_unread'
  | 'failed';

export const loginRefusalReasons = ['wrong_password', 'wrong_client_id', 'disabled', 'revoked'] as const;
export type LoginRefusalReason = (typeof loginRefusalReasons)[number];

export const rejectionReasons = [
  'too_large',
  'not_json',
  'too_complex',
  'not_an_object',
  'unknown_method',
  'params_not_an_object',
  'invalid_status',
  'wrong_type',
] as const;

export const floodReasons = ['too_many_messages'] as const;
export type FloodReason = (typeof floodReasons)[number];

export const activationReasons = ['first', 'open', 'in_window', 'with_token', 'with_secret', 'after_release'] as const;
export type ActivationReason = (typeof activationReasons)[number];

export const activationRefusalReasons = [
  'disabled',
  'no_window',
  'not_the_owner',
  'wrong_secret',
  'not_released',
  'too_many_in_use',
] as const;
export type ActivationRefusalReason = (typeof activationRefusalReasons)[number];

/** What an owner, a claim or the service did to whose the device is and to what opens it. */
export const ownershipChanges = [
  'claimed',
  'released',
  'transfer_offered',
  'transfer_withdrawn',
  'transfer_declined',
  'transferred',
  'pairing_opened',
  'pairing_closed',
  'credentials_replaced',
  'session_restored',
] as const;
export type OwnershipChange = (typeof ownershipChanges)[number];

export const membershipChanges = [
  'invited',
  'invitation_withdrawn',
  'invitation_declined',
  'joined',
  'role_changed',
  'removed',
  'left',
] as const;
export type MembershipChange = (typeof membershipChanges)[number];

/** What was done with a guest link; `link_undelivered`: a use that did not reach the device and does not count. */
export const guestLinkChanges = ['link_made', 'link_revoked', 'link_used', 'link_undelivered'] as const;
export type GuestLinkChange = (typeof guestLinkChanges)[number];

/** `ended`: with the device's being disabled. */
export const guestLinkStates = ['open', 'used_up', 'expired', 'ended'] as const;
export type GuestLinkState = (typeof guestLinkStates)[number];

export const deviceEventStatuses = [
  'online',
  'offline',
  'login_refused',
  'flooded',
  'activated',
  'activation_refused',
  'credentials',
  'ownership',
  'sharing',
  'guest_link',
] as const;

/** Error messages of answers: those of contract 7, and the additional ones of decision: envelope. */
export type ErrorMessage =
  | 'invalid_request'
  | 'invalid_product_key'
  | 'device_not_activated'
  | 'no_control_params'
  | 'invalid_control_params'
  | 'email_exists'
  | 'username_exists'
  | 'weak_password'
  | 'product_key_exists'
  | 'product_has_devices'
  | 'too_many_api_keys'
  | 'too_many_products'
  | 'too_many_devices'
  | 'too_many_members'
  | 'too_many_guest_links'
  | 'too_many_claim_tokens'
  | 'too_many_transfers'
  | 'invalid_claim_token'
  | 'unauthorized'
  | 'invalid_password'
  | 'invalid_client_id'
  | 'forbidden'
  | 'product_disabled'
  | 'device_disabled'
  | 'activation_not_allowed'
  | 'reactivation_not_allowed'
  | 'not_found'
  | 'device_not_found'
  | 'too_many_requests'
  | 'internal_error'
  | 'broker_unavailable';
