// Texts about why something happened to a device: each word that the service gives for a reason has its sentence here. The types hold
// the lists complete. Loaded with the device.
import type { Client, Data, DirectEndReason } from '@latchwork/client';

type OfDevice = Client['devices'][':deviceId'];
type Rejected = NonNullable<Data<OfDevice['properties']['$get']>['lastRejected']>;

type Reasons = {
  event: Extract<Data<OfDevice['events']['$get']>['list'][number], { status: string }>['reason'];
  rejected: Rejected['reason'];
  /** How a connection ended, in the words of the service and of brokers; a broker may have others. */
  end:
    | DirectEndReason
    | 'normal'
    | 'tcp_closed'
    | 'keepalive_timeout'
    | 'takenover'
    | 'discarded'
    | 'kicked'
    | 'broker_restart';
};

const rejected: Record<Reasons['rejected'], string> = {
  too_large: 'it is too large',
  not_text: 'it is not text',
  not_json: 'it is not JSON',
  too_complex: 'it is nested too deeply',
  not_an_object: 'it is not a JSON object',
  unknown_method: 'its method is unknown',
  params_not_an_object: 'its params are no JSON object',
  invalid_status: 'its status is neither online nor offline',
  invalid_update: 'what it says of an update is not understood',
  wrong_type: 'of the wrong type',
};

export const reasonsTexts: { [Kind in keyof Reasons]: Record<Reasons[Kind], string> } = {
  event: {
    ...rejected,
    retained: 'only the status may be retained',
    wrong_topic: 'the device may not publish to this topic',
    qos_not_supported: 'QoS 2 is not supported',
    device_disabled: 'the device is disabled',
    session_revoked: 'its session was revoked',
    handling_failed: 'the service failed to handle it',
    connected: 'connected',
    disconnected: 'disconnected',
    authenticated: 'logged in',
    announced: 'said so itself',
    message: 'sent a message',
    silence: 'nothing heard for too long',
    unconfirmed: 'the connection was no longer confirmed',
    revoked: 'its credentials were revoked',
    wrong_password: 'wrong password',
    wrong_client_id: 'wrong client identifier',
    disabled: 'the device is disabled',
    too_many_messages: 'too many messages',
    first: 'for the first time',
    open: 'nothing was asked',
    in_window: 'while its pairing window was open',
    with_token: "with its owner's claim token",
    with_secret: 'with its device secret',
    after_release: 'after it was released',
    no_window: 'no pairing window was open',
    other_network: 'from another network than that of its pairing window',
    not_the_owner: "with somebody else's claim token",
    wrong_secret: 'without its device secret',
    not_released: 'it has to be released first',
    too_many_in_use: 'too many passwords are in use',
    no_claim_code: 'without its claim code',
    contested: 'another one took over the open session: both stay valid',
    claimed: 'claimed',
    claim_undone: "claim undone by the product's owner",
    released: 'released',
    transfer_offered: 'offered to another user',
    transfer_withdrawn: 'offer withdrawn',
    transfer_declined: 'offer declined',
    transferred: 'handed to another user',
    pairing_opened: 'pairing window opened',
    pairing_closed: 'pairing window closed',
    reactivation_opened: 'everybody may activate it again',
    reactivation_closed: 'not everybody may activate it any more',
    credentials_replaced: 'new messaging password',
    session_restored: 'its session was lost: it has to activate again',
    invited: 'invited',
    invitation_withdrawn: 'invitation withdrawn',
    invitation_declined: 'invitation declined',
    joined: 'became a member',
    role_changed: 'role changed',
    removed: 'removed',
    left: 'left',
    link_made: 'made',
    link_revoked: 'revoked',
    link_used: 'used',
    link_undelivered: 'did not reach the device: the use does not count',
  },
  rejected,
  end: {
    clean: 'the device closed the connection',
    normal: 'the device closed the connection',
    with_will: 'the device closed the connection and had its last will sent',
    lost: 'connection lost',
    tcp_closed: 'connection lost',
    keep_alive: 'no packet within one and a half keep-alive periods',
    keepalive_timeout: 'no packet within one and a half keep-alive periods',
    taken_over: 'a newer connection took its place',
    takenover: 'a newer connection took its place',
    discarded: 'a newer connection took its place',
    deployed: 'the service was updated',
    broker_restart: 'the broker started again',
    kicked: 'the broker ended the session',
    revoked: 'its credentials were revoked',
    disabled: 'the device is disabled',
    topic_forbidden: 'it used a topic that is not its own',
    topic_invalid: 'it used a topic that MQTT does not allow',
    malformed_packet: 'it sent a packet that is not MQTT',
    packet_unfinished: 'it did not finish a packet in time',
    packet_too_large: 'it sent a packet that is too large',
    text_frame: 'it sent text instead of MQTT packets',
    protocol_error: 'it broke a rule of MQTT',
    qos_not_supported: 'it asked for QoS 2, which is not supported',
    retain_not_supported: 'it sent a retained message, which is not supported',
    topic_alias_invalid: 'it used a topic alias that is not valid',
    subscription_ids_not_supported: 'it used subscription identifiers, which are not supported',
    receive_maximum_exceeded: 'it sent more unacknowledged messages than it may',
    too_many_packets: 'it sent too many packets',
    too_much_unread: 'it did not read what was sent to it',
    failed: 'the service failed',
  },
};
