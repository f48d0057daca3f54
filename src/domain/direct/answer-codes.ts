// What a device is told when the service refuses its CONNECT or ends its session: the codes of both versions of MQTT, and
// the code that closes the WebSocket. One table each, over a closed list of reasons.
import type { ProtocolLevel, Qos } from '../../protocol/mqtt-codec/client-packets.ts';
import { isProtocolError, type MalformedReason } from '../../protocol/mqtt-codec/malformed.ts';
import type { Refusal } from '../refusal.ts';

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
  quota: [0x03, 0x97],
  unavailable: [0x03, 0x88],
} as const satisfies Record<string, readonly [number, number]>;
export type ConnectRefusal = keyof typeof connackCodes;

export function connackCodeOf(level: ProtocolLevel, refusal: ConnectRefusal): number {
  return connackCodes[refusal][level === 5 ? 1 : 0];
}

const connectRefusals: { [Kind in Refusal['kind']]?: ConnectRefusal } = {
  wrong_client_id: 'client_id',
  not_found: 'bad_credentials',
  credential_refused: 'bad_credentials',
  device_disabled: 'not_authorized',
};

/** For a login that the device's core refused. An unknown device and a wrong password look alike. */
export const connectRefusalOf = ({ kind }: Refusal): ConnectRefusal => connectRefusals[kind] ?? 'unavailable';

/** By the reason that ends a session: DISCONNECT of MQTT 5 (MQTT5 3.14.2.1), and the close code (RFC 6455 7.4.1). */
const endCodes = {
  clean: [0x00, 1000],
  lost: [0x00, 1000],
  with_will: [0x00, 1000],
  deployed: [0x8b, 1012],
  keep_alive: [0x8d, 1008],
  taken_over: [0x8e, 1008],
  revoked: [0x87, 1008],
  disabled: [0x87, 1008],
  topic_forbidden: [0x87, 1008],
  malformed_packet: [0x81, 1002],
  packet_unfinished: [0x81, 1002],
  text_frame: [0x81, 1003],
  protocol_error: [0x82, 1002],
  packet_too_large: [0x95, 1009],
  topic_invalid: [0x90, 1008],
  qos_not_supported: [0x9b, 1008],
  retain_not_supported: [0x9a, 1008],
  topic_alias_invalid: [0x94, 1008],
  subscription_ids_not_supported: [0xa1, 1008],
  receive_maximum_exceeded: [0x93, 1008],
  too_many_packets: [0x96, 1008],
  too_much_unread: [0x97, 1008],
  failed: [0x83, 1011],
} as const satisfies Record<string, readonly [disconnect: number, close: number]>;
/** How a direct session ended; the detail of the event `disconnected`. */
export type DirectEndReason = keyof typeof endCodes;

export const disconnectCodeOf = (reason: DirectEndReason): number => endCodes[reason][0];
export const closeCodeOf = (reason: DirectEndReason): number => endCodes[reason][1];

export function endOfMalformed(malformed: MalformedReason): { reason: DirectEndReason; malformed?: MalformedReason } {
  if (malformed === 'packet_too_large') return { reason: 'packet_too_large' };
  return { reason: isProtocolError(malformed) ? 'protocol_error' : 'malformed_packet', malformed };
}

export type FilterRefusal = 'forbidden' | 'invalid' | 'shared' | 'too_many';

const filterCodes = { forbidden: 0x87, invalid: 0x8f, shared: 0x9e, too_many: 0x97 } as const;

/** SUBACK (MQTT 3.9.3, MQTT5 3.9.3): MQTT 3.1.1 has one code for every failure. */
export function subackCodeOf(level: ProtocolLevel, granted: Exclude<Qos, 2> | FilterRefusal): number {
  if (typeof granted === 'number') return granted;
  return level === 5 ? filterCodes[granted] : 0x80;
}

const pubackCodes: Readonly<Record<string, number>> = {
  too_many_messages: 0x97,
  device_disabled: 0x87,
  session_revoked: 0x87,
  device_not_found: 0x87,
  handling_failed: 0x83,
};

/** PUBACK of MQTT 5 for a message that was received and is without effect; MQTT 3.1.1 cannot say so. */
export function pubackCodeOf(rejectedBecause: string | undefined): number {
  return rejectedBecause === undefined ? 0x00 : (pubackCodes[rejectedBecause] ?? 0x99);
}
