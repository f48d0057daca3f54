// Why bytes are no MQTT packet, or no packet that its sender may send: one closed list with the clauses. Clauses that start
// with MQTT5 are numbered as in MQTT 5, the others as in MQTT 3.1.1.

export const malformedClauses = {
  remaining_length_too_long: 'MQTT 2.2.3',
  packet_too_large: 'MQTT5-3.1.2-24',
  packet_type_reserved: 'MQTT 2.2.1',
  flags_reserved: 'MQTT-2.2.2-2',
  body_too_short: 'MQTT 2.2.3',
  body_too_long: 'MQTT 2.2.3',
  text_not_utf8: 'MQTT-1.5.3-1',
  text_with_nul: 'MQTT-1.5.3-2',
  packet_id_zero: 'MQTT-2.3.1-1',
  qos_reserved: 'MQTT-3.3.1-4',
  dup_without_qos: 'MQTT-3.3.1-2',
  protocol_name_wrong: 'MQTT-3.1.2-1',
  connect_flag_reserved: 'MQTT-3.1.2-3',
  will_flags_without_will: 'MQTT-3.1.2-13',
  will_qos_reserved: 'MQTT-3.1.2-14',
  password_without_username: 'MQTT-3.1.2-22',
  subscribe_empty: 'MQTT-3.8.3-3',
  unsubscribe_empty: 'MQTT-3.10.3-2',
  subscribe_options_reserved: 'MQTT-3-8.3-4',
  property_unknown: 'MQTT5-2.2.2.2',
  property_repeated: 'MQTT5-2.2.2.2',
  property_value_invalid: 'MQTT5-2.2.2.2',
  properties_too_long: 'MQTT5-2.2.2.1',
} as const;

export type MalformedReason = keyof typeof malformedClauses;

/** Thrown while a packet is read; `readPacket` turns it into a value. */
export class MalformedPacketError extends Error {
  override readonly name = 'MalformedPacketError';
  readonly reason: MalformedReason;

  constructor(reason: MalformedReason) {
    super(`${reason} (${malformedClauses[reason]})`);
    this.reason = reason;
  }
}

/** True if MQTT 5 calls it a Protocol Error rather than a Malformed Packet. */
export function isProtocolError(reason: MalformedReason): boolean {
  return reason === 'property_repeated' || reason === 'property_value_invalid';
}
