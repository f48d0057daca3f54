// The closed lists of words on the wire, in snake_case; types of events have a dot. domain/ decides what a word means.

/** contract 2.4: only `readonly` is a rule of the service; the others tell applications which screen to show. */
export const controlModes = ['toggle', 'pulse', 'dimmer', 'readonly', 'generic'] as const;

export const keyScopes = ['read', 'control', 'manage'] as const;

export const memberRoles = ['operator', 'viewer'] as const;
/** What somebody is to a device: `product_owner` of a device that another user has claimed (domain/access.ts). */
export const deviceRoles = ['owner', ...memberRoles, 'product_owner'] as const;

export const activationPolicies = ['open', 'registered', 'closed'] as const;

/** From the laxest to the strictest. */
export const reactivationPolicies = ['open', 'owner', 'secret', 'never'] as const;
export type ReactivationPolicy = (typeof reactivationPolicies)[number];

export const deviceStatusTexts = ['inactive', 'online', 'offline', 'disabled'] as const;

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

export const commandReasons = [
  'broker_unavailable',
  'no_subscriber',
  'outcome_unknown',
  'no_reply',
  'requested',
  'replaced',
  'revoked',
] as const;
/** Why a command ended without success. A device that replied with an error is told with its code. */
export type CommandReason = (typeof commandReasons)[number] | `device replied ${number}`;

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

export const loginRefusalReasons = ['wrong_password', 'wrong_client_id', 'disabled', 'revoked'] as const;
export type LoginRefusalReason = (typeof loginRefusalReasons)[number];

export const rejectionReasons = [
  'too_large',
  'not_text',
  'not_json',
  'too_complex',
  'not_an_object',
  'unknown_method',
  'params_not_an_object',
  'invalid_status',
  'invalid_update',
  'wrong_type',
] as const;

/** Why a message that the device no longer holds is not used. */
export const messageRejectionReasons = [
  ...rejectionReasons,
  'retained',
  'wrong_topic',
  'qos_not_supported',
  'device_disabled',
  'session_revoked',
  'handling_failed',
] as const;
export type MessageRejectionReason = (typeof messageRejectionReasons)[number];

export const floodReasons = ['too_many_messages'] as const;
export type FloodReason = (typeof floodReasons)[number];

export const activationReasons = ['first', 'open', 'in_window', 'with_token', 'with_secret', 'after_release'] as const;
export type ActivationReason = (typeof activationReasons)[number];

export const activationRefusalReasons = [
  'disabled',
  'no_window',
  'other_network',
  'not_the_owner',
  'wrong_secret',
  'not_released',
  'too_many_in_use',
  'no_claim_code',
] as const;
export type ActivationRefusalReason = (typeof activationRefusalReasons)[number];

/** What an owner, a claim or the service did to whose the device is and to what opens it. */
export const ownershipChanges = [
  'claimed',
  'claim_undone',
  'released',
  'transfer_offered',
  'transfer_withdrawn',
  'transfer_declined',
  'transferred',
  'pairing_opened',
  'pairing_closed',
  'reactivation_opened',
  'reactivation_closed',
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

export const guestLinkStates = ['open', 'used_up', 'expired', 'ended'] as const;
export type GuestLinkState = (typeof guestLinkStates)[number];

export const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

export const pauseReasons = ['user', 'author_lost_right', 'device_disabled'] as const;
export type PauseReason = (typeof pauseReasons)[number];

/** How a due time ended; `running` until then. */
export const runOutcomes = [
  'running',
  'confirmed',
  'acknowledged',
  'published',
  'refused',
  'missed',
  'skipped',
] as const;

export const skipReasons = ['no_sun_event', 'excepted', 'paused', 'replaced'] as const;

export const runReasons = [
  ...skipReasons,
  'device_offline',
  'too_late',
  'service_down',
  'outcome_unknown',
  'author_lost_right',
  'cancelled',
  'device_not_activated',
  'device_disabled',
  'device_restarting',
  'product_readonly',
] as const;

export const deviceEventStatuses = [
  'online',
  'offline',
  'login_refused',
  'flooded',
  'message_rejected',
  'activated',
  'activation_refused',
  'credentials',
  'ownership',
  'sharing',
  'guest_link',
] as const;

/** What a witness sees: an appliance is on or off, or something was pressed. */
export const witnessExpectations = ['on', 'off', 'pressed'] as const;
export const witnessOperators = ['=', '!=', '<', '<=', '>', '>='] as const;
export const witnessConsequences = ['nothing', 'retry_once', 'notice'] as const;
export const witnessOutcomes = ['pending', 'witnessed', 'not_witnessed'] as const;
export const witnessReasons = ['not_seen', 'undelivered', 'replaced', 'forbidden', 'unreachable'] as const;

/** What a webhook is told of a device. */
export const eventTypes = [
  'device.activated',
  'device.online',
  'device.offline',
  'device.reported',
  'command.settled',
  'run.settled',
  'device.claimed',
  'device.released',
  'member.changed',
] as const;
export type EventType = (typeof eventTypes)[number];

/** Why a webhook gets no more events, until its user opens it again. */
export const webhookEnds = ['receiver_gone', 'failed_for_days'] as const;
export type WebhookEnd = (typeof webhookEnds)[number];

/** Why no answer came from a webhook's receiver. */
export const webhookProblems = ['timeout', 'unreachable', 'secret_lost'] as const;
export type WebhookProblem = (typeof webhookProblems)[number];

/** Why a user gets a notice. */
export const noticeCauses = [
  'offline',
  'lease_not_off',
  'run_failed',
  'moved_by_hand',
  'not_witnessed',
  'security',
  'webhook_disabled',
] as const;
export type NoticeCause = (typeof noticeCauses)[number];

/** What a user is told of the safety of the account and of whose the devices are. */
export const securityEventKinds = [
  'signed_in',
  'wrong_password',
  'session_ended',
  'password_changed',
  'password_reset',
  'email_verified',
  'key_made',
  'key_deleted',
  'webhook_made',
  'member_joined',
  'role_changed',
  'member_removed',
  'device_claimed',
  'claim_undone',
  'device_released',
  'device_transferred',
] as const;
export type SecurityEventKind = (typeof securityEventKinds)[number];

/** What is known of a device at a time. */
export const usageValues = ['on', 'off', 'unknown'] as const;

/** How far a device is with new firmware, from the offer to its end. */
export const updateStates = [
  'offered',
  'postponed',
  'accepted',
  'downloading',
  'downloaded',
  'restarting',
  'proved',
  'rolled_back',
  'failed',
  'unknown',
  'superseded',
] as const;
export type UpdateState = (typeof updateStates)[number];

/** Why an update ended without a proof. */
export const updateReasons = [
  'not_reached',
  'no_answer',
  'too_slow',
  'not_installed',
  'not_back',
  'no_version',
  'other_version',
  'not_downloaded',
  'device_error',
  'stopped',
  'newer_campaign',
] as const;
export type UpdateReason = (typeof updateReasons)[number];

/** Why a campaign offers nothing to a device: it is no failure. */
export const skippedReasons = ['has_version', 'below_minimum', 'not_active'] as const;

export const campaignStates = ['running', 'paused', 'stopped', 'done'] as const;
export type CampaignState = (typeof campaignStates)[number];

/** Why a campaign is paused: too many updates failed, or too many devices stay away after them. */
export const pauseCauses = ['maker', 'failures', 'away'] as const;

export const signatureAlgorithms = ['ed25519', 'p256'] as const;
