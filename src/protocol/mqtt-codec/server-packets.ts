// Writes what the service sends, in MQTT 3.1.1 and 5. Decides nothing: the codes are chosen in domain/direct.
import { join } from './byte-cursor.ts';
import type { ProtocolLevel } from './client-packets.ts';

const encoder = new TextEncoder();

const propertyIds = {
  subscriptionId: 11,
  sessionExpiry: 17,
  assignedClientId: 18,
  serverKeepAlive: 19,
  receiveMaximum: 33,
  maximumQos: 36,
  retainAvailable: 37,
  maximumPacketSize: 39,
  subscriptionIdsAvailable: 41,
  sharedAvailable: 42,
};

export const pingresp = new Uint8Array([0xd0, 0]);

/** What a session of MQTT 5 is told about the service. */
export type Announced = {
  maxPacketBytes: number;
  receiveMaximum: number;
  /** In place of the client's. */
  keepAliveSeconds?: number;
  /** ASCII, for a client without one. */
  assignedClientId?: string;
  takesSubscriptionIds?: boolean;
};

/** Session present is always 0. @param announced with success */
export function encodeConnack(level: ProtocolLevel, code: number, announced?: Announced): Uint8Array {
  if (level < 5) return packet(0x20, [0, code]);
  if (announced === undefined) return packet(0x20, [0, code, 0]);
  const { keepAliveSeconds, assignedClientId: clientId } = announced;
  const properties = [
    clientId === undefined
      ? []
      : [propertyIds.assignedClientId, ...uint16(clientId.length), ...encoder.encode(clientId)],
    keepAliveSeconds === undefined ? [] : [propertyIds.serverKeepAlive, ...uint16(keepAliveSeconds)],
    [propertyIds.sessionExpiry, ...uint32(0)],
    [propertyIds.receiveMaximum, ...uint16(announced.receiveMaximum)],
    [propertyIds.maximumQos, 1],
    [propertyIds.retainAvailable, 0],
    [propertyIds.maximumPacketSize, ...uint32(announced.maxPacketBytes)],
    [propertyIds.subscriptionIdsAvailable, announced.takesSubscriptionIds === true ? 1 : 0],
    [propertyIds.sharedAvailable, 0],
  ].flat();
  return packet(0x20, [0, code, properties.length, ...properties]);
}

/** @param code of MQTT 5; MQTT 3.1.1 knows none */
export function encodePuback(level: ProtocolLevel, packetId: number, code = 0): Uint8Array {
  const body = level < 5 || code === 0 ? uint16(packetId) : [...uint16(packetId), code];
  return packet(0x40, body);
}

export function encodeSuback(level: ProtocolLevel, packetId: number, codes: readonly number[]): Uint8Array {
  return packet(0x90, [...uint16(packetId), ...(level < 5 ? [] : [0]), ...codes]);
}

/** @param codes of MQTT 5, one a filter */
export function encodeUnsuback(level: ProtocolLevel, packetId: number, codes: readonly number[]): Uint8Array {
  return packet(0xb0, [...uint16(packetId), ...(level < 5 ? [] : [0, ...codes])]);
}

/** MQTT 5 only: a server of MQTT 3.1.1 closes the connection without a word. */
export function encodeDisconnect(code: number): Uint8Array {
  return packet(0xe0, [code, 0]);
}

/** @param packetId of QoS 1; 0 for QoS 0 */
export function encodePublish(
  level: ProtocolLevel,
  topic: string,
  payload: string,
  packetId: number,
  { isRetained = false, subscriptionIds = [] }: { isRetained?: boolean; subscriptionIds?: readonly number[] } = {},
): Uint8Array {
  const [name, content] = [encoder.encode(topic), encoder.encode(payload)];
  const nameLength = uint16(name.length);
  const properties = subscriptionIds.flatMap((id) => [propertyIds.subscriptionId, ...variable(id)]);
  const propertiesOf5 = level < 5 ? [] : [...variable(properties.length), ...properties];
  const tail = [...(packetId === 0 ? [] : uint16(packetId)), ...propertiesOf5];
  const length = variable(nameLength.length + name.length + tail.length + content.length);
  const first = (packetId === 0 ? 0x30 : 0x32) + (isRetained ? 1 : 0);
  return join([[first], length, nameLength, name, tail, content]);
}

function packet(first: number, body: readonly number[]): Uint8Array {
  return new Uint8Array([first, ...variable(body.length), ...body]);
}

function variable(bytes: number): number[] {
  const encoded: number[] = [];
  let left = bytes;
  do {
    const low = left % 128;
    left = Math.floor(left / 128);
    encoded.push(left > 0 ? low + 128 : low);
  } while (left > 0);
  return encoded;
}

function uint16(value: number): number[] {
  return [value >> 8, value & 255];
}

function uint32(value: number): number[] {
  return [...uint16(Math.floor(value / 65_536)), ...uint16(value % 65_536)];
}
