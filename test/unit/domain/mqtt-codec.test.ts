// The codec of MQTT packets against another implementation of the standard (mqtt-packet), however the bytes are divided, and
// against bytes that are no packets.
import fc from 'fast-check';
import { generate, parser, type Packet } from 'mqtt-packet';
import { describe, expect, it } from 'vitest';
import { readPacket, type ClientPacket, type ProtocolLevel } from '../../../src/protocol/mqtt-codec/client-packets.ts';
import type { MalformedReason } from '../../../src/protocol/mqtt-codec/malformed.ts';
import { PacketReader } from '../../../src/protocol/mqtt-codec/packet-reader.ts';
import {
  encodeConnack,
  encodeDisconnect,
  encodePuback,
  encodePublish,
  encodeSuback,
  encodeUnsuback,
  pingresp,
} from '../../../src/protocol/mqtt-codec/server-packets.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';

const maxBytes = 65_536;

type Read = ClientPacket | { malformed: MalformedReason };

function readAll(reader: PacketReader, level: ProtocolLevel): Read[] {
  const read: Read[] = [];
  for (;;) {
    const raw = reader.next(maxBytes);
    if (raw === undefined) return read;
    if ('malformed' in raw) return [...read, raw];
    read.push(readPacket(raw, level));
  }
}

function readOne(bytes: Uint8Array | readonly number[], level: ProtocolLevel = 4): Read | undefined {
  const reader = new PacketReader();
  reader.push(Uint8Array.from(bytes));
  return readAll(reader, level)[0];
}

const topicText = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => !/[+#\0]/.test(text));
const name = fc.string({ unit: 'grapheme', maxLength: 40 }).filter((text) => !text.includes('\0'));
const packetId = fc.integer({ min: 1, max: 65_535 });

/** A packet as mqtt-packet takes it, with what has to be read from it. */
type Case = { packet: Packet; read: object };

const connects = (level: ProtocolLevel): fc.Arbitrary<Case> =>
  fc
    .record({
      clientId: name.filter((text) => text !== ''),
      username: name.filter((text) => text !== ''),
      password: fc.uint8Array({ minLength: 1, maxLength: 60 }),
      keepalive: fc.integer({ min: 0, max: 65_535 }),
      will: fc.option(
        fc.record({ topic: topicText, payload: fc.uint8Array({ maxLength: 40 }), retain: fc.boolean() }),
        {
          nil: undefined,
        },
      ),
      receiveMaximum: packetId,
    })
    .map(({ clientId, username, password, keepalive, will, receiveMaximum }) => ({
      packet: {
        cmd: 'connect',
        protocolId: 'MQTT',
        protocolVersion: level,
        clean: true,
        clientId,
        username,
        password: Buffer.from(password),
        keepalive,
        ...(will && { will: { ...will, qos: 1 as const, payload: Buffer.from(will.payload) } }),
        ...(level === 5 && { properties: { receiveMaximum, userProperties: { a: 'b' } } }),
      },
      read: {
        type: 'connect',
        level,
        clientId,
        username,
        password,
        keepAliveSeconds: keepalive,
        will: will && { topic: will.topic, payload: will.payload, qos: 1, isRetained: will.retain },
        receiveMaximum: level === 5 ? receiveMaximum : 65_535,
      },
    }));

const publishes = (level: ProtocolLevel): fc.Arbitrary<Case> =>
  fc
    .record({
      topic: topicText,
      payload: fc.uint8Array({ maxLength: 400 }),
      qos: fc.constantFrom(0, 1, 2),
      retain: fc.boolean(),
      messageId: packetId,
    })
    .map(({ topic, payload, qos, retain, messageId }) => ({
      packet: {
        ...{ cmd: 'publish', topic, payload: Buffer.from(payload), qos, retain, dup: false, messageId },
        ...(level === 5 && { properties: { contentType: 'application/json', messageExpiryInterval: 60 } }),
      },
      read: { type: 'publish', topic, payload, qos, isRetained: retain, packetId: qos === 0 ? 0 : messageId },
    }));

const others = (level: ProtocolLevel): fc.Arbitrary<Case> =>
  fc.oneof(
    fc
      .record({ messageId: packetId, topic: topicText, qos: fc.constantFrom(0, 1, 2) })
      .map(({ messageId, topic, qos }): Case => ({
        packet: { cmd: 'subscribe', messageId, subscriptions: [{ topic, qos }] },
        read: { type: 'subscribe', packetId: messageId, filters: [{ filter: topic, qos, isNoLocal: false }] },
      })),
    fc
      .record({ messageId: packetId, topics: fc.array(topicText, { minLength: 1, maxLength: 4 }) })
      .map(({ messageId, topics }): Case => ({
        packet: { cmd: 'unsubscribe', messageId, unsubscriptions: topics },
        read: { type: 'unsubscribe', packetId: messageId, filters: topics },
      })),
    packetId.map((messageId): Case => ({
      packet: { cmd: 'puback', messageId, ...(level === 5 && { reasonCode: 16 }) },
      read: { type: 'puback', packetId: messageId },
    })),
    fc.constant<Case>({ packet: { cmd: 'pingreq' }, read: { type: 'pingreq' } }),
    fc.constant<Case>({ packet: { cmd: 'disconnect' }, read: { type: 'disconnect', isWithWill: false } }),
  );

const bytesOf = (packet: Packet, level: ProtocolLevel) => Uint8Array.from(generate(packet, { protocolVersion: level }));

describe.each<[string, ProtocolLevel]>([
  ['MQTT 3.1.1', 4],
  ['MQTT 5', 5],
])('packets of a client in %s', (_, level) => {
  const cases = fc.oneof(connects(level), publishes(level), others(level));

  it('are read alike, whatever the frames that carry them', () => {
    const stream = fc.tuple(fc.array(cases, { minLength: 1, maxLength: 6 }), fc.array(fc.nat({ max: 40 })));
    fc.assert(
      fc.property(stream, ([packets, lengths]) => {
        const bytes = Uint8Array.from(packets.flatMap(({ packet }) => [...bytesOf(packet, level)]));
        const reader = new PacketReader();
        const read: Read[] = [];
        let at = 0;
        for (const length of [...lengths, bytes.length]) {
          reader.push(bytes.subarray(at, at + length));
          at += length;
          read.push(...readAll(reader, level));
        }
        expect(read).toMatchObject(packets.map((one) => one.read));
        expect(reader.waiting).toBe(0);
      }),
      { numRuns: 300, seed: fuzzSeed },
    );
  });
});

it.each<[ProtocolLevel, string, Uint8Array, object]>([
  [4, 'CONNACK', encodeConnack(4, 4), { cmd: 'connack', returnCode: 4, sessionPresent: false }],
  [5, 'CONNACK', encodeConnack(5, 0x86), { cmd: 'connack', reasonCode: 0x86, sessionPresent: false }],
  [
    5,
    'CONNACK with what the service serves',
    encodeConnack(5, 0, { maxPacketBytes: 65_536, receiveMaximum: 100 }),
    {
      cmd: 'connack',
      reasonCode: 0,
      properties: {
        sessionExpiryInterval: 0,
        receiveMaximum: 100,
        maximumQoS: 1,
        retainAvailable: false,
        maximumPacketSize: 65_536,
        subscriptionIdentifiersAvailable: false,
        sharedSubscriptionAvailable: false,
      },
    },
  ],
  [4, 'PUBACK', encodePuback(4, 0x1234, 0x99), { cmd: 'puback', messageId: 0x1234 }],
  [5, 'PUBACK', encodePuback(5, 0x1234, 0x99), { cmd: 'puback', messageId: 0x1234, reasonCode: 0x99 }],
  [4, 'SUBACK', encodeSuback(4, 7, [0, 1, 0x80]), { cmd: 'suback', messageId: 7, granted: [0, 1, 0x80] }],
  [5, 'SUBACK', encodeSuback(5, 7, [0, 0x87]), { cmd: 'suback', messageId: 7, granted: [0, 0x87] }],
  [4, 'UNSUBACK', encodeUnsuback(4, 9, [0]), { cmd: 'unsuback', messageId: 9 }],
  [5, 'UNSUBACK', encodeUnsuback(5, 9, [0, 0x11]), { cmd: 'unsuback', messageId: 9, granted: [0, 0x11] }],
  [4, 'PINGRESP', pingresp, { cmd: 'pingresp' }],
  [5, 'DISCONNECT', encodeDisconnect(0x8e), { cmd: 'disconnect', reasonCode: 0x8e }],
  [4, 'PUBLISH', encodePublish(4, 'a/ü', '{"ü":1}', 0), { cmd: 'publish', topic: 'a/ü', qos: 0 }],
  [5, 'PUBLISH', encodePublish(5, 'a', 'x'.repeat(300), 513), { cmd: 'publish', messageId: 513, qos: 1, length: 306 }],
])('of the service, in MQTT level %i: %s is read by another implementation', (level, _, bytes, expected) => {
  const read: Packet[] = [];
  const packets = parser({ protocolVersion: level });
  packets.on('packet', (packet: Packet) => read.push(packet));
  packets.parse(Buffer.from(bytes));
  expect(read).toHaveLength(1);
  expect(read[0]).toMatchObject(expected);
});

describe('bytes that are no packet', () => {
  const text = (value: string) => [0, value.length, ...Buffer.from(value)];
  const connect = (flags: number, ...rest: number[]) => {
    const body = [...text('MQTT'), 4, flags, 0, 60, ...text('a'), ...rest];
    return [0x10, body.length, ...body];
  };
  const connect5 = (properties: number[]) => {
    const body = [...text('MQTT'), 5, 2, 0, 60, properties.length, ...properties, ...text('a')];
    return [0x10, body.length, ...body];
  };

  it.each<[string, MalformedReason, number[], ProtocolLevel?]>([
    ['MQTT 2.2.3', 'remaining_length_too_long', [0x30, 0xff, 0xff, 0xff, 0xff, 0x01]],
    ['MQTT 2.2.1', 'packet_type_reserved', [0x00, 0]],
    ['MQTT 2.2.1', 'packet_type_reserved', [0xf0, 0]],
    ['MQTT-2.2.2-2', 'flags_reserved', [0xc1, 0]],
    ['MQTT-3.8.1-1', 'flags_reserved', [0x80, 5, 0, 1, ...text('a').slice(1), 0]],
    ['MQTT-3.10.1-1', 'flags_reserved', [0xa0, 5, 0, 1, ...text('a')]],
    ['MQTT-3.14.1-1', 'flags_reserved', [0xe1, 0]],
    ['MQTT-3.6.1-1', 'flags_reserved', [0x60, 2, 0, 1]],
    ['MQTT-3.3.1-4', 'qos_reserved', [0x36, 5, ...text('a'), 0, 1]],
    ['MQTT-3.3.1-2', 'dup_without_qos', [0x38, 3, ...text('a')]],
    ['MQTT-2.3.1-1', 'packet_id_zero', [0x32, 5, ...text('a'), 0, 0]],
    ['MQTT-2.3.1-1', 'packet_id_zero', [0x82, 6, 0, 0, ...text('a'), 0]],
    ['MQTT-1.5.3-1', 'text_not_utf8', [0x30, 4, 0, 2, 0xc3, 0x28]],
    ['MQTT-1.5.3-1', 'text_not_utf8', [0x30, 5, 0, 3, 0xed, 0xa0, 0x80]],
    ['MQTT-1.5.3-2', 'text_with_nul', [0x30, 3, 0, 1, 0]],
    ['MQTT-3.1.2-1', 'protocol_name_wrong', [0x10, 10, ...text('mqtt'), 4, 2, 0, 60]],
    ['MQTT-3.1.2-3', 'connect_flag_reserved', connect(3)],
    ['MQTT-3.1.2-11', 'will_flags_without_will', connect(0b10_0010)],
    ['MQTT-3.1.2-13', 'will_flags_without_will', connect(0b1010)],
    ['MQTT-3.1.2-14', 'will_qos_reserved', connect(0b1_1110, ...text('t'), ...text('p'))],
    ['MQTT-3.1.2-22', 'password_without_username', connect(0b0100_0010, ...text('p'))],
    ['MQTT 3.1.3', 'body_too_short', connect(0b1000_0010)],
    ['MQTT 3.1.3', 'body_too_long', connect(2, 1, 2, 3)],
    ['MQTT 3.12', 'body_too_long', [0xc0, 1, 0]],
    ['MQTT-3.8.3-3', 'subscribe_empty', [0x82, 2, 0, 1]],
    ['MQTT-3-8.3-4', 'subscribe_options_reserved', [0x82, 6, 0, 1, ...text('a'), 3]],
    ['MQTT-3-8.3-4', 'subscribe_options_reserved', [0x82, 6, 0, 1, ...text('a'), 4]],
    ['MQTT5-3.8.3-5', 'subscribe_options_reserved', [0x82, 7, 0, 1, 0, ...text('a'), 0xc0], 5],
    ['MQTT5 3.8.3.1', 'subscribe_options_reserved', [0x82, 7, 0, 1, 0, ...text('a'), 0x30], 5],
    ['MQTT-3.10.3-2', 'unsubscribe_empty', [0xa2, 2, 0, 1]],
    ['MQTT5 2.2.2.2', 'property_unknown', connect5([0x12, ...text('x')])],
    ['MQTT5 3.1.2.11.2', 'property_repeated', connect5([0x11, 0, 0, 0, 0, 0x11, 0, 0, 0, 0])],
    ['MQTT5 3.1.2.11.3', 'property_value_invalid', connect5([0x21, 0, 0])],
    ['MQTT5 3.1.2.11.4', 'property_value_invalid', connect5([0x27, 0, 0, 0, 0])],
    ['MQTT5 2.2.2.1', 'properties_too_long', [0x30, 4, ...text('a'), 9], 5],
    ['MQTT5-3.3.4-6', 'property_unknown', [0x30, 6, ...text('a'), 2, 0x0b, 1], 5],
  ])('%s: %s', (_, reason, bytes, level = 4) => {
    expect(readOne(bytes, level)).toEqual({ malformed: reason });
  });

  it('MQTT5-3.1.2-24: a packet beyond the limit is refused by its header, before its body has come', () => {
    const reader = new PacketReader();
    reader.push(Uint8Array.from([0x30, 0x80, 0x80, 0x04]));
    expect(reader.next(maxBytes)).toEqual({ malformed: 'packet_too_large' });
  });
});
