// The properties of MQTT 5 (MQTT5 2.2.2): which may stand in what a client sends, and their values. Those that the service
// does not use are read, checked and dropped.
import type { ByteCursor } from './byte-cursor.ts';
import { MalformedPacketError } from './malformed.ts';

const owners = ['connect', 'will', 'publish', 'acknowledgement', 'subscribe', 'unsubscribe', 'disconnect'] as const;
type PropertyOwner = (typeof owners)[number];

/** `read` answers undefined for a text and for binary data. */
type ClientProperty = { name: string; read: (part: ByteCursor) => number | undefined; of: readonly PropertyOwner[] };

const readFlag = (part: ByteCursor) => inRange(part.byte(), 0, 1);
const readUint16 = (part: ByteCursor) => part.uint16();
const readUint32 = (part: ByteCursor) => part.uint32();
const skipText = (part: ByteCursor) => void part.text();
const skipTextPair = (part: ByteCursor) => {
  part.text();
  part.text();
  return undefined;
};
const skipBinary = (part: ByteCursor) => void part.binary();

/** By the identifier in the packet (MQTT5 2.2.2.2). */
const clientProperties = {
  1: { name: 'payloadFormat', read: readFlag, of: ['will', 'publish'] },
  2: { name: 'messageExpiry', read: readUint32, of: ['will', 'publish'] },
  3: { name: 'contentType', read: skipText, of: ['will', 'publish'] },
  8: { name: 'responseTopic', read: skipText, of: ['will', 'publish'] },
  9: { name: 'correlationData', read: skipBinary, of: ['will', 'publish'] },
  11: { name: 'subscriptionId', read: (part) => inRange(part.variable(), 1, Infinity), of: ['subscribe'] },
  17: { name: 'sessionExpiry', read: readUint32, of: ['connect', 'disconnect'] },
  21: { name: 'authMethod', read: skipText, of: ['connect'] },
  22: { name: 'authData', read: skipBinary, of: ['connect'] },
  23: { name: 'requestProblemInfo', read: readFlag, of: ['connect'] },
  24: { name: 'willDelay', read: readUint32, of: ['will'] },
  25: { name: 'requestResponseInfo', read: readFlag, of: ['connect'] },
  31: { name: 'reasonString', read: skipText, of: ['acknowledgement', 'disconnect'] },
  33: { name: 'receiveMaximum', read: (part) => inRange(part.uint16(), 1, 65_535), of: ['connect'] },
  34: { name: 'topicAliasMaximum', read: readUint16, of: ['connect'] },
  // The session refuses a topic alias of 0 with a reason of its own.
  35: { name: 'topicAlias', read: readUint16, of: ['publish'] },
  38: { name: 'userProperty', read: skipTextPair, of: owners },
  39: { name: 'maximumPacketSize', read: (part) => inRange(part.uint32(), 1, Infinity), of: ['connect'] },
} as const satisfies Record<number, ClientProperty>;

const propertiesById: Partial<Record<number, ClientProperty>> = clientProperties;

type PropertyName = (typeof clientProperties)[keyof typeof clientProperties]['name'];
export type Properties = Pick<ReadonlyMap<PropertyName, number | undefined>, 'get' | 'has'>;

export const noProperties: Properties = new Map();

/** @throws MalformedPacketError */
export function readProperties(cursor: ByteCursor, owner: PropertyOwner): Properties {
  const length = cursor.variable();
  if (length === 0) return noProperties;
  if (length > cursor.left) throw new MalformedPacketError('properties_too_long');
  const part = cursor.part(length);
  const properties = new Map<string, number | undefined>();
  while (part.left > 0) {
    const property = propertiesById[part.variable()];
    if (property?.of.includes(owner) !== true) throw new MalformedPacketError('property_unknown');
    const { name, read } = property;
    if (properties.has(name) && name !== 'userProperty') throw new MalformedPacketError('property_repeated');
    properties.set(name, read(part));
  }
  return properties;
}

function inRange(value: number, min: number, max: number): number {
  if (value < min || value > max) throw new MalformedPacketError('property_value_invalid');
  return value;
}
