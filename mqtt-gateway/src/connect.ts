// What the gateway reads of MQTT: CONNECT, whose user name says which device it is. Checks no password. The bytes after
// CONNECT are carried unread.
import type { ConnectRefusal } from '../../src/domain/direct/answer-codes.ts';
import { parseMessagingName } from '../../src/domain/topics.ts';
import { maxConnectBytes, readPacket, type ProtocolLevel } from '../../src/protocol/mqtt-codec/client-packets.ts';
import type { PacketReader } from '../../src/protocol/mqtt-codec/packet-reader.ts';

/** `level` is the version of MQTT in which the device is answered. */
export type Opening =
  | { kind: 'connect'; level: ProtocolLevel; deviceId: string }
  | { kind: 'refused'; level: ProtocolLevel; refusal: ConnectRefusal }
  /** No CONNECT: the standard allows no answer (MQTT-3.1.0-1). */
  | { kind: 'malformed' };

/** Undefined until `reader` has a whole CONNECT: 1 KiB at most, and what came with its end. */
export function readOpening(reader: PacketReader): Opening | undefined {
  const raw = reader.next(maxConnectBytes);
  if (raw === undefined) return undefined;
  const packet = 'malformed' in raw ? raw : readPacket(raw, 4);
  if ('malformed' in packet) return { kind: 'malformed' };
  if (packet.type === 'connect_other_version') {
    // MQTT-3.1.2-2. A client of a later version than 5 reads an answer of version 5.
    return { kind: 'refused', level: packet.level > 5 ? 5 : 4, refusal: 'version' };
  }
  if (packet.type !== 'connect') return { kind: 'malformed' };
  const { level, username } = packet;
  const device = parseMessagingName(username ?? '');
  if (device === undefined) return { kind: 'refused', level, refusal: 'bad_credentials' };
  return { kind: 'connect', level, deviceId: device.deviceId };
}
