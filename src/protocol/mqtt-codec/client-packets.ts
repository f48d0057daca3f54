// Reads what a client sends, in MQTT 3.1.1 and 5. Checks what a packet says about itself; whether it may be sent at this
// moment, and what it does, is decided in domain/direct.
import { ByteCursor } from './byte-cursor.ts';
import { MalformedPacketError } from './malformed.ts';
import type { RawPacket, Unreadable } from './packet-reader.ts';

/** CONNECT has to fit into it: the documented names and password are shorter by far (contract 5). */
export const maxConnectBytes = 1_024;

/** As CONNECT says it: 4 is MQTT 3.1.1. */
export type ProtocolLevel = 4 | 5;

export type Qos = 0 | 1 | 2;

type Will = { topic: string; payload: Uint8Array; qos: Qos; isRetained: boolean };

export type ConnectPacket = {
  type: 'connect';
  level: ProtocolLevel;
  clientId: string;
  username: string | undefined;
  password: Uint8Array | undefined;
  keepAliveSeconds: number;
  /** A broker's connection to this one, as mosquitto marks it in MQTT 3.1.1. */
  isBroker: boolean;
  will: Will | undefined;
  /** Limits of what the client receives; their maximum if CONNECT has none. */
  receiveMaximum: number;
  maxPacketBytes: number;
  hasAuthMethod: boolean;
};

export type PublishPacket = {
  type: 'publish';
  topic: string;
  payload: Uint8Array;
  qos: Qos;
  isRetained: boolean;
  isRedelivery: boolean;
  /** 0 with QoS 0. */
  packetId: number;
  hasTopicAlias: boolean;
};

/** When a subscription gets retained messages (MQTT5 3.8.3.1). */
const retainHandlings = ['always', 'if_new', 'never'] as const;
type RetainHandling = (typeof retainHandlings)[number];

export type SubscribePacket = {
  type: 'subscribe';
  packetId: number;
  filters: { filter: string; qos: Qos; isNoLocal: boolean; keepsRetain: boolean; retained: RetainHandling }[];
  subscriptionId: number | undefined;
};

export type ClientPacket =
  | ConnectPacket
  /** A version that is not spoken here; the rest of the packet was not read. */
  | { type: 'connect_other_version'; level: number }
  | PublishPacket
  | { type: 'puback'; packetId: number }
  | SubscribePacket
  | { type: 'unsubscribe'; packetId: number; filters: string[] }
  | { type: 'pingreq' }
  | { type: 'disconnect'; isWithWill: boolean; isExpiryRaised: boolean }
  /** A part of QoS 2, AUTH, or what only servers send. */
  | { type: 'unexpected'; name: UnexpectedPacket };

type UnexpectedPacket = 'connack' | 'pubrec' | 'pubrel' | 'pubcomp' | 'suback' | 'unsuback' | 'pingresp' | 'auth';

const types = { connect: 1, publish: 3, puback: 4, subscribe: 8, unsubscribe: 10, pingreq: 12, disconnect: 14 };
const unexpectedTypes: Partial<Record<number, UnexpectedPacket>> = {
  2: 'connack',
  5: 'pubrec',
  6: 'pubrel',
  7: 'pubcomp',
  9: 'suback',
  11: 'unsuback',
  13: 'pingresp',
  15: 'auth',
};

/** MQTT 3.1.1 with the highest bit set. */
const brokerVersion = 0x84;

/** @param level of the session; before CONNECT any */
export function readPacket(raw: RawPacket, level: ProtocolLevel): ClientPacket | Unreadable {
  try {
    return read(raw, level);
  } catch (error) {
    if (error instanceof MalformedPacketError) return { malformed: error.reason };
    throw error;
  }
}

function read({ type, flags, body }: RawPacket, level: ProtocolLevel): ClientPacket {
  const cursor = new ByteCursor(body);
  if (type === types.publish) return readPublish(cursor, flags, level);
  // MQTT-2.2.2-1: SUBSCRIBE, UNSUBSCRIBE and PUBREL carry a bit that means nothing.
  const isMarked = type === types.subscribe || type === types.unsubscribe || type === 6;
  if (type === 0 || (type === 15 && level < 5)) throw new MalformedPacketError('packet_type_reserved');
  if (flags !== (isMarked ? 2 : 0)) throw new MalformedPacketError('flags_reserved');
  const unexpected = unexpectedTypes[type];
  if (unexpected !== undefined) return { type: 'unexpected', name: unexpected };
  switch (type) {
    case types.connect:
      return readConnect(cursor);
    case types.puback:
      return readPuback(cursor, level);
    case types.subscribe:
      return readSubscribe(cursor, level);
    case types.unsubscribe:
      return readUnsubscribe(cursor, level);
    case types.pingreq:
      cursor.end();
      return { type: 'pingreq' };
    default:
      return readDisconnect(cursor, level);
  }
}

function readConnect(cursor: ByteCursor): ClientPacket {
  const name = cursor.text();
  const version = cursor.byte();
  const isBroker = version === brokerVersion;
  const level = isBroker ? 4 : version;
  const isKnownName = name === 'MQTT' || (name === 'MQIsdp' && level === 3);
  if (!isKnownName) throw new MalformedPacketError('protocol_name_wrong');
  if (level !== 4 && level !== 5) return { type: 'connect_other_version', level };
  const flags = cursor.byte();
  checkConnectFlags(flags, level);
  const keepAliveSeconds = cursor.uint16();
  const properties = level === 5 ? readProperties(cursor, 'connect') : noProperties;
  const clientId = cursor.text();
  const will = (flags & 4) === 0 ? undefined : readWill(cursor, flags, level);
  const username = (flags & 128) === 0 ? undefined : cursor.text();
  const password = (flags & 64) === 0 ? undefined : cursor.binary();
  cursor.end();
  return {
    type: 'connect',
    level,
    clientId,
    username,
    password,
    keepAliveSeconds,
    isBroker,
    will,
    receiveMaximum: properties.get('receiveMaximum') ?? 65_535,
    maxPacketBytes: properties.get('maximumPacketSize') ?? 4_294_967_295,
    hasAuthMethod: properties.has('authMethod'),
  };
}

function checkConnectFlags(flags: number, level: ProtocolLevel): void {
  if ((flags & 1) !== 0) throw new MalformedPacketError('connect_flag_reserved');
  if ((flags & 4) === 0 && (flags & 0b11_1000) !== 0) throw new MalformedPacketError('will_flags_without_will');
  if ((flags & 0b1_1000) === 0b1_1000) throw new MalformedPacketError('will_qos_reserved');
  // MQTT 5 allows a password alone.
  const isPasswordAlone = (flags & 64) !== 0 && (flags & 128) === 0;
  if (isPasswordAlone && level < 5) throw new MalformedPacketError('password_without_username');
}

function readWill(cursor: ByteCursor, flags: number, level: ProtocolLevel): Will {
  if (level === 5) readProperties(cursor, 'will');
  const topic = cursor.text();
  const payload = cursor.binary();
  return { topic, payload, qos: qosOf(flags >> 3), isRetained: (flags & 32) !== 0 };
}

function readPublish(cursor: ByteCursor, flags: number, level: ProtocolLevel): PublishPacket {
  if ((flags & 6) === 6) throw new MalformedPacketError('qos_reserved');
  const qos = qosOf(flags >> 1);
  if (qos === 0 && (flags & 8) !== 0) throw new MalformedPacketError('dup_without_qos');
  const topic = cursor.text();
  const packetId = qos === 0 ? 0 : readPacketId(cursor);
  const properties = level === 5 ? readProperties(cursor, 'publish') : noProperties;
  return {
    type: 'publish',
    topic,
    payload: cursor.rest(),
    qos,
    isRetained: (flags & 1) !== 0,
    isRedelivery: (flags & 8) !== 0,
    packetId,
    hasTopicAlias: properties.has('topicAlias'),
  };
}

function readPuback(cursor: ByteCursor, level: ProtocolLevel): ClientPacket {
  const packetId = readPacketId(cursor);
  if (level === 5 && cursor.left > 0) {
    cursor.byte();
    if (cursor.left > 0) readProperties(cursor, 'acknowledgement');
  }
  cursor.end();
  return { type: 'puback', packetId };
}

function readSubscribe(cursor: ByteCursor, level: ProtocolLevel): SubscribePacket {
  const packetId = readPacketId(cursor);
  const properties = level === 5 ? readProperties(cursor, 'subscribe') : noProperties;
  const filters: SubscribePacket['filters'] = [];
  while (cursor.left > 0) {
    const filter = cursor.text();
    const options = cursor.byte();
    // Of MQTT 5: no local, retain as published, retain handling. In 3.1.1 all of them are reserved.
    const isReserved = level === 5 ? (options & 0xc0) !== 0 || (options & 0x30) === 0x30 : (options & 0xfc) !== 0;
    if (isReserved || (options & 3) === 3) throw new MalformedPacketError('subscribe_options_reserved');
    const [isNoLocal, keepsRetain] = [(options & 4) !== 0, (options & 8) !== 0];
    const retained = retainHandlings[(options >> 4) & 3] ?? 'always';
    filters.push({ filter, qos: qosOf(options), isNoLocal, keepsRetain, retained });
  }
  if (filters.length === 0) throw new MalformedPacketError('subscribe_empty');
  return { type: 'subscribe', packetId, filters, subscriptionId: properties.get('subscriptionId') };
}

function readUnsubscribe(cursor: ByteCursor, level: ProtocolLevel): ClientPacket {
  const packetId = readPacketId(cursor);
  if (level === 5) readProperties(cursor, 'unsubscribe');
  const filters: string[] = [];
  while (cursor.left > 0) filters.push(cursor.text());
  if (filters.length === 0) throw new MalformedPacketError('unsubscribe_empty');
  return { type: 'unsubscribe', packetId, filters };
}

function readDisconnect(cursor: ByteCursor, level: ProtocolLevel): ClientPacket {
  const reasonCode = level === 5 && cursor.left > 0 ? cursor.byte() : 0;
  const properties = level === 5 && cursor.left > 0 ? readProperties(cursor, 'disconnect') : noProperties;
  cursor.end();
  const isExpiryRaised = (properties.get('sessionExpiry') ?? 0) > 0;
  // MQTT5 3.14.4: with any other code than 0 the will is published.
  return { type: 'disconnect', isWithWill: reasonCode !== 0, isExpiryRaised };
}

function readPacketId(cursor: ByteCursor): number {
  const packetId = cursor.uint16();
  if (packetId === 0) throw new MalformedPacketError('packet_id_zero');
  return packetId;
}

function qosOf(bits: number): Qos {
  return (bits & 3) as Qos;
}

/** The properties of MQTT 5 (MQTT5 2.2.2) may stand in these; those that the service does not use are read, checked and dropped. */
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
type Properties = Pick<ReadonlyMap<PropertyName, number | undefined>, 'get' | 'has'>;

const noProperties: Properties = new Map();

/** @throws MalformedPacketError */
function readProperties(cursor: ByteCursor, owner: PropertyOwner): Properties {
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
