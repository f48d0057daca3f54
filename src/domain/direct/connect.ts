// What CONNECT says, checked before its password is: who the device is by its name, and whether the service can serve
// what it asks for. Credentials are checked by the device's core.
import { textOf } from '../../protocol/mqtt-codec/byte-cursor.ts';
import * as mqtt from '../../protocol/mqtt-codec/client-packets.ts';
import type { PacketReader } from '../../protocol/mqtt-codec/packet-reader.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import { messagingName, parseMessagingName, topicOf, type DeviceIdentity } from '../topics.ts';
import { closeCodeOf, endOfMalformed, type ConnectRefusal } from './answer-codes.ts';

export type DirectLogin = {
  device: DeviceIdentity;
  password: string;
  isClientIdRight: boolean;
  will: string | null;
};

type First =
  | mqtt.ConnectPacket
  | { level: mqtt.ProtocolLevel; refusal: ConnectRefusal }
  | { drop: { code: number; cause: string } };

/** MQTT-3.1.0-1 */
const connectExpected = { drop: { code: 1002, cause: 'CONNECT expected' } };

/** Undefined until `reader` has a whole CONNECT. `drop`: the standard allows no answer. */
export function readConnect(reader: PacketReader): First | undefined {
  const raw = reader.next(mqtt.maxConnectBytes);
  // A client of another protocol may never send what the reader would wait for.
  if (raw === undefined) return (reader.rest()[0] ?? 0x10) === 0x10 ? undefined : connectExpected;
  const packet = 'malformed' in raw ? raw : mqtt.readPacket(raw, 4);
  if ('malformed' in packet) {
    const { reason, malformed } = endOfMalformed(packet.malformed);
    return { drop: { code: closeCodeOf(reason), cause: malformed ?? reason } };
  }
  if (packet.type === 'connect') return packet;
  // MQTT-3.1.2-2. A client of a later version than 5 reads an answer of version 5.
  if (packet.type === 'connect_other_version') return { level: packet.level > 5 ? 5 : 4, refusal: 'version' };
  return connectExpected;
}

/** @param deviceId of the object that was reached: the username has to name this very device */
export function readLogin(connect: mqtt.ConnectPacket, deviceId: string): DirectLogin | { refusal: ConnectRefusal } {
  const { level, clientId, username, will } = connect;
  if (connect.hasAuthMethod) return { refusal: 'auth_method' };
  const device = parseMessagingName(username ?? '');
  const password = connect.password && textOf(connect.password);
  if (device?.deviceId !== deviceId || password === undefined) return { refusal: 'bad_credentials' };
  const isClientIdRight = clientId === messagingName(device);
  if (will === undefined) return { device, password, isClientIdRight, will: null };
  if (will.topic !== topicOf(device, topicActions.status)) return { refusal: 'will_topic' };
  // MQTT5-3.2.2-12, MQTT5-3.2.2-13; a server of MQTT 3.1.1 grants what it has.
  if (level === 5 && will.qos === 2) return { refusal: 'will_qos' };
  if (level === 5 && will.isRetained) return { refusal: 'will_retain' };
  const payload = textOf(will.payload);
  return payload === undefined ? { refusal: 'will_payload' } : { device, password, isClientIdRight, will: payload };
}
