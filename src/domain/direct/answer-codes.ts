// What a device is told when the service refuses its CONNECT or ends its session: the codes of both versions of MQTT, and
// the code that closes the WebSocket. One switch each, from the closed list of reasons.
import type { ProtocolLevel, Qos } from '../../protocol/mqtt-codec/client-packets.ts';
import type { EdgeEndReason } from '../../protocol/vocabulary.ts';
import type { Refusal } from '../refusal.ts';

/** Why CONNECT is refused. */
export type ConnectRefusal =
  | 'version'
  | 'client_id'
  | 'bad_credentials'
  | 'not_authorized'
  | 'auth_method'
  | 'will_topic'
  | 'will_qos'
  | 'will_retain'
  | 'will_payload'
  | 'unavailable';

/** CONNACK (MQTT 3.2.2.3, MQTT5 3.2.2.2): return code of MQTT 3.1.1, reason code of MQTT 5. */
const connackCodes = {
  version: [0x01, 0x84],
  client_id: [0x02, 0x85],
  bad_credentials: [0x04, 0x86],
  not_authorized: [0x05, 0x87],
  auth_method: [0x05, 0x8c],
  will_topic: [0x05, 0x87],
  will_qos: [0x05, 0x9b],
  will_retain: [0x05, 0x9a],
  will_payload: [0x05, 0x99],
  unavailable: [0x03, 0x88],
} as const satisfies Record<ConnectRefusal, readonly [number, number]>;

export function connackCodeOf(level: ProtocolLevel, refusal: ConnectRefusal): number {
  return connackCodes[refusal][level === 5 ? 1 : 0];
}

/** Of a login that the device's core refused. An unknown device and a wrong password look alike. */
export function connectRefusalOf(refusal: Refusal): ConnectRefusal {
  switch (refusal.kind) {
    case 'wrong_client_id':
      return 'client_id';
    case 'not_found':
    case 'credential_refused':
      return 'bad_credentials';
    case 'device_disabled':
      return 'not_authorized';
    default:
      return 'unavailable';
  }
}

/** DISCONNECT of MQTT 5 (MQTT5 3.14.2.1). */
export function disconnectCodeOf(reason: EdgeEndReason): number {
  switch (reason) {
    case 'clean':
    case 'lost':
    case 'with_will':
      return 0x00;
    case 'deployed':
      return 0x8b;
    case 'keep_alive':
      return 0x8d;
    case 'taken_over':
      return 0x8e;
    case 'revoked':
    case 'disabled':
    case 'topic_forbidden':
      return 0x87;
    case 'malformed_packet':
    case 'packet_unfinished':
    case 'text_frame':
      return 0x81;
    case 'protocol_error':
      return 0x82;
    case 'packet_too_large':
      return 0x95;
    case 'topic_invalid':
      return 0x90;
    case 'qos_not_supported':
      return 0x9b;
    case 'retain_not_supported':
      return 0x9a;
    case 'topic_alias_invalid':
      return 0x94;
    case 'subscription_ids_not_supported':
      return 0xa1;
    case 'receive_maximum_exceeded':
      return 0x93;
    case 'too_many_packets':
      return 0x96;
    case 'too_much_unread':
      return 0x97;
    case 'failed':
      return 0x83;
  }
}

/** RFC 6455 7.4.1. */
export function closeCodeOf(reason: EdgeEndReason): number {
  switch (reason) {
    case 'clean':
    case 'lost':
    case 'with_will':
      return 1000;
    case 'deployed':
      return 1012;
    case 'failed':
      return 1011;
    case 'packet_too_large':
      return 1009;
    case 'text_frame':
      return 1003;
    case 'malformed_packet':
    case 'protocol_error':
    case 'packet_unfinished':
      return 1002;
    case 'keep_alive':
    case 'taken_over':
    case 'revoked':
    case 'disabled':
    case 'topic_forbidden':
    case 'topic_invalid':
    case 'qos_not_supported':
    case 'retain_not_supported':
    case 'topic_alias_invalid':
    case 'subscription_ids_not_supported':
    case 'receive_maximum_exceeded':
    case 'too_many_packets':
    case 'too_much_unread':
      return 1008;
  }
}

/** Why a filter of SUBSCRIBE is refused. */
export type FilterRefusal = 'forbidden' | 'invalid' | 'shared' | 'too_many';

const filterCodes = { forbidden: 0x87, invalid: 0x8f, shared: 0x9e, too_many: 0x97 } as const;

/** SUBACK (MQTT 3.9.3, MQTT5 3.9.3): MQTT 3.1.1 has one code for every failure. */
export function subackCodeOf(level: ProtocolLevel, granted: Exclude<Qos, 2> | FilterRefusal): number {
  if (typeof granted === 'number') return granted;
  return level === 5 ? filterCodes[granted] : 0x80;
}

/** PUBACK of MQTT 5 for a message that was received and is without effect; MQTT 3.1.1 cannot say so. */
export function pubackCodeOf(rejectedBecause: string | undefined): number {
  switch (rejectedBecause) {
    case undefined:
      return 0x00;
    case 'too_many_messages':
      return 0x97;
    case 'device_disabled':
    case 'session_revoked':
    case 'device_not_found':
      return 0x87;
    case 'handling_failed':
      return 0x83;
    default:
      return 0x99;
  }
}
