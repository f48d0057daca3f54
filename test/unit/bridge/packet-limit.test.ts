// What passes to the MQTT parser, however the bytes arrive: small packets as they are, of large ones the head.
import { randomBytes } from 'node:crypto';
import { finished } from 'node:stream/promises';
import fc from 'fast-check';
import { generate, parser, type IPublishPacket, type Packet } from 'mqtt-packet';
import { describe, expect, it } from 'vitest';
import { maxBodyBytes, PacketLimit, payloadBytesOf } from '../../../broker-bridge/src/broker/packet-limit.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';

/** What a parser reads behind the limit when the bytes come in chunks of these sizes, over and over. */
async function parse(bytes: Buffer, chunkSizes: number[], protocolVersion: 4 | 5): Promise<Packet[]> {
  const limit = new PacketLimit();
  const packets: Packet[] = [];
  const reader = parser({ protocolVersion });
  reader.on('packet', (packet) => packets.push(packet));
  reader.on('error', (error: Error) => limit.destroy(error));
  limit.on('data', (chunk: Buffer) => reader.parse(chunk));
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = chunkSizes[turn % chunkSizes.length] ?? 1;
    limit.write(bytes.subarray(at, at + size));
    at += size;
  }
  limit.end();
  await finished(limit);
  return packets;
}

type Made = { topic: string; payload: Buffer; qos: 0 | 1; userProperty: string };

const publish = ({ topic, payload, qos, userProperty }: Made, protocolVersion: 4 | 5): Buffer => {
  const properties = userProperty === '' ? {} : { properties: { userProperties: { name: userProperty } } };
  const packet: IPublishPacket = { cmd: 'publish', topic, payload, qos, dup: false, retain: false, messageId: 7 };
  return generate({ ...packet, ...(protocolVersion === 5 ? properties : {}) }, { protocolVersion });
};

const made = fc.record({
  topic: fc.integer({ min: 1, max: 300 }).map((length) => 't'.repeat(length)),
  payload: fc
    .oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: maxBodyBytes - 600, max: maxBodyBytes + 9 }))
    .map((length) => randomBytes(length)),
  qos: fc.constantFrom<(0 | 1)[]>(0, 1),
  userProperty: fc.constantFrom('', 'x', 'y'.repeat(200)),
});

describe('behind the limit', () => {
  it.each([4, 5] as const)('MQTT level %i: every packet arrives, payloads whole or cut', async (protocolVersion) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(made, { minLength: 1, maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 4 }),
        async (messages, chunkSizes) => {
          const ping = generate({ cmd: 'pingresp' });
          const bytes = Buffer.concat(messages.flatMap((one) => [publish(one, protocolVersion), ping]));
          const sizes = bytes.length < maxBodyBytes / 2 ? chunkSizes : [...chunkSizes, 200_000];
          const packets = await parse(bytes, sizes, protocolVersion);
          expect(packets.filter(({ cmd }) => cmd === 'pingresp')).toHaveLength(messages.length);
          const publishes = packets.filter((packet) => packet.cmd === 'publish');
          expect(publishes).toHaveLength(messages.length);
          for (const [index, packet] of publishes.entries()) {
            const { topic, payload, qos } = messages[index]!;
            expect(packet).toMatchObject({ topic, qos, ...(qos === 1 && { messageId: 7 }) });
            const arrived = packet.payload as Buffer;
            expect(payloadBytesOf(packet)).toBe(payload.length);
            const isCut = packet.length === maxBodyBytes;
            expect(packet.length).toBeLessThanOrEqual(maxBodyBytes);
            const headBytes = isCut ? arrived.length - 4 : payload.length;
            expect(arrived.subarray(0, headBytes).equals(payload.subarray(0, headBytes))).toBe(true);
          }
        },
      ),
      { numRuns: 60, seed: fuzzSeed },
    );
  });

  it.each([
    ['a length that does not end', Buffer.from([0x30, 0x80, 0x80, 0x80, 0x80, 0x80])],
    ['a huge packet that is no publish', Buffer.from([0x20, 0xff, 0xff, 0xff, 0x7f])],
  ])('fails on %s', async (_, bytes) => {
    await expect(parse(bytes, [1], 4)).rejects.toThrow(/^(a packet of|remaining_length_too_long)/);
  });
});
