// The properties of MQTT 5 (MQTT5 2.2.2): which may stand in what a client sends, and their values. Those that the service
// does not use are read, checked and dropped.
import type { ByteCursor } from './byte-cursor.ts';
import { MalformedPacketError } from './malformed.ts';

export const propertyIds = {
  payloadFormat: 1,
  messageExpiry: 2,
  contentType: 3,
  responseTopic: 8,
  correlationData: 9,
  subscriptionId: 11,
  sessionExpiry: 17,
  authMethod: 21,
  authData: 22,
  requestProblemInfo: 23,
  willDelay: 24,
  requestResponseInfo: 25,
  reasonString: 31,
  receiveMaximum: 33,
  topicAliasMaximum: 34,
  topicAlias: 35,
  maximumQos: 36,
  retainAvailable: 37,
  userProperty: 38,
  maximumPacketSize: 39,
  subscriptionIdsAvailable: 41,
  sharedAvailable: 42,
} as const;

const ids = propertyIds;

/** What a client may send in each packet. */
export const clientProperties = {
  connect: [
    ids.sessionExpiry,
    ids.receiveMaximum,
    ids.maximumPacketSize,
    ids.topicAliasMaximum,
    ids.requestResponseInfo,
    ids.requestProblemInfo,
    ids.userProperty,
    ids.authMethod,
    ids.authData,
  ],
  will: [
    ids.willDelay,
    ids.payloadFormat,
    ids.messageExpiry,
    ids.contentType,
    ids.responseTopic,
    ids.correlationData,
    ids.userProperty,
  ],
  publish: [
    ids.payloadFormat,
    ids.messageExpiry,
    ids.topicAlias,
    ids.responseTopic,
    ids.correlationData,
    ids.userProperty,
    ids.contentType,
  ],
  acknowledgement: [ids.reasonString, ids.userProperty],
  subscribe: [ids.subscriptionId, ids.userProperty],
  unsubscribe: [ids.userProperty],
  disconnect: [ids.sessionExpiry, ids.reasonString, ids.userProperty],
} as const satisfies Record<string, readonly number[]>;

export type Properties = ReadonlyMap<number, number | string | undefined>;

const noProperties: Properties = new Map();

/** @throws MalformedPacketError */
export function readProperties(cursor: ByteCursor, where: keyof typeof clientProperties): Properties {
  const length = cursor.variable();
  if (length === 0) return noProperties;
  if (length > cursor.left) throw new MalformedPacketError('properties_too_long');
  const part = cursor.part(length);
  const allowed: readonly number[] = clientProperties[where];
  const found = new Map<number, number | string | undefined>();
  while (part.left > 0) {
    const id = part.variable();
    if (!allowed.includes(id)) throw new MalformedPacketError('property_unknown');
    if (found.has(id) && id !== ids.userProperty) throw new MalformedPacketError('property_repeated');
    found.set(id, readValue(part, id));
  }
  return found;
}

function readValue(part: ByteCursor, id: number): number | string | undefined {
  switch (id) {
    case ids.payloadFormat:
    case ids.requestProblemInfo:
    case ids.requestResponseInfo:
      return inRange(part.byte(), 0, 1);
    case ids.receiveMaximum:
    case ids.topicAlias:
      // A topic alias of 0 has a reason of its own: see whoever reads it.
      return id === ids.receiveMaximum ? inRange(part.uint16(), 1, 65_535) : part.uint16();
    case ids.topicAliasMaximum:
      return part.uint16();
    case ids.maximumPacketSize:
      return inRange(part.uint32(), 1, Infinity);
    case ids.sessionExpiry:
    case ids.willDelay:
    case ids.messageExpiry:
      return part.uint32();
    case ids.subscriptionId:
      return inRange(part.variable(), 1, Infinity);
    case ids.authData:
    case ids.correlationData:
      part.binary();
      return undefined;
    case ids.userProperty:
      part.text();
      part.text();
      return undefined;
    default:
      return part.text();
  }
}

function inRange(value: number, min: number, max: number): number {
  if (value < min || value > max) throw new MalformedPacketError('property_value_invalid');
  return value;
}
