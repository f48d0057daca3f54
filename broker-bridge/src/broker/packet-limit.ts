// Stands between the socket and the MQTT parser, which would keep a whole packet in memory, whatever its size: of a large
// publish only the head passes. It reads no more of MQTT than where packets begin and payloads lie.
import { Transform, type TransformCallback } from 'node:stream';

type PacketLimits = {
  isMqtt5: boolean;
  maxPayloadBytes: number;
};

/** Bytes that follow each other in a packet, and whether the parser gets them. */
type Stretch = { bytes: number; passes: boolean };

/** All stretches of the packet, and what the parser gets before them. */
type PacketStart = { replacement: Buffer | null; stretches: Stretch[] };

const publishType = 3;
/** Of a variable byte integer (MQTT-1.5.5). */
const maxLengthBytes = 4;
/** No packet but a publish is that large. */
const maxOtherBytes = 1024 * 1024;
const sizeBytes = 8;

/**
 * A payload that arrives behind this stream with more than `maxPayloadBytes` was cut: see `readCutPayload`. Publishes of
 * about that size and more lose their properties.
 */
export class PacketLimit extends Transform {
  readonly #limits: PacketLimits;
  /** Too few bytes to read the start of a packet. */
  #rest = Buffer.alloc(0);
  /** The rest of the packet under way. */
  #stretches: Stretch[] = [];

  constructor(limits: PacketLimits) {
    super();
    this.#limits = limits;
  }

  override _transform(received: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      this.#read(this.#rest.length === 0 ? received : Buffer.concat([this.#rest, received]));
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  /** @throws Error if the bytes cannot be MQTT */
  #read(chunk: Buffer): void {
    this.#rest = Buffer.alloc(0);
    let at = 0;
    /** What lies from here to `at` passes as it is. */
    let passFrom = 0;
    const pass = (): void => void (at > passFrom && this.push(chunk.subarray(passFrom, at)));
    while (at < chunk.length) {
      const [stretch] = this.#stretches;
      if (stretch === undefined) {
        const start = readPacketStart(chunk.subarray(at), this.#limits);
        if (start === null) {
          this.#rest = Buffer.from(chunk.subarray(at));
          break;
        }
        if (start.replacement !== null) {
          pass();
          this.push(start.replacement);
          passFrom = at;
        }
        this.#stretches = start.stretches;
        continue;
      }
      const bytes = Math.min(stretch.bytes, chunk.length - at);
      if (!stretch.passes) {
        pass();
        passFrom = at + bytes;
      }
      at += bytes;
      stretch.bytes -= bytes;
      if (stretch.bytes === 0) this.#stretches.shift();
    }
    pass();
  }
}

/** The head of a payload that was cut, and how long the payload was. */
export function readCutPayload(payload: Buffer): { head: Buffer; trueBytes: number } {
  return { head: payload.subarray(sizeBytes), trueBytes: Number(payload.readBigUInt64BE(0)) };
}

/** Null while too few bytes have come. */
function readPacketStart(packet: Buffer, { isMqtt5, maxPayloadBytes }: PacketLimits): PacketStart | null {
  const length = readLength(packet, 1);
  if (length === null) {
    if (packet.length > maxLengthBytes) throw new Error('a packet without a length');
    return null;
  }
  const flags = packet[0] ?? 0;
  const { value: remainingBytes, end: bodyAt } = length;
  const isPublish = flags >> 4 === publishType;
  if (!isPublish && remainingBytes > maxOtherBytes) throw new Error(`a packet of ${remainingBytes} bytes`);
  if (!isPublish || remainingBytes <= maxPayloadBytes) {
    return { replacement: null, stretches: [{ bytes: bodyAt + remainingBytes, passes: true }] };
  }
  if (packet.length < bodyAt + 2) return null;
  const hasPacketId = (flags & 0b0110) !== 0;
  const topicEnd = bodyAt + 2 + packet.readUInt16BE(bodyAt) + (hasPacketId ? 2 : 0);
  const packetEnd = bodyAt + remainingBytes;
  if (packet.length < Math.min(topicEnd + maxLengthBytes, packetEnd)) return null;
  const properties = isMqtt5 ? readLength(packet, topicEnd) : { value: 0, end: topicEnd };
  const payloadBytes = properties === null ? -1 : packetEnd - properties.end - properties.value;
  if (properties === null || payloadBytes < 0) throw new Error('a publish that ends before its payload');
  const size = Buffer.alloc(payloadBytes > maxPayloadBytes ? sizeBytes : 0);
  if (size.length > 0) size.writeBigUInt64BE(BigInt(payloadBytes));
  const keptBytes = size.length > 0 ? maxPayloadBytes + 1 - sizeBytes : payloadBytes;
  const prefix = Buffer.concat([packet.subarray(bodyAt, topicEnd), Buffer.alloc(isMqtt5 ? 1 : 0), size]);
  return {
    replacement: Buffer.concat([Buffer.of(flags), encodeLength(prefix.length + keptBytes), prefix]),
    stretches: [
      { bytes: properties.end + properties.value, passes: false },
      { bytes: keptBytes, passes: true },
      { bytes: payloadBytes - keptBytes, passes: false },
    ],
  };
}

/** A variable byte integer; null if its end has not come, or does not come within four bytes. */
function readLength(bytes: Buffer, at: number): { value: number; end: number } | null {
  let value = 0;
  for (let index = 0; index < maxLengthBytes; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) return null;
    value += (byte & 0x7f) * 128 ** index;
    if (byte < 0x80) return { value, end: at + index + 1 };
  }
  return null;
}

function encodeLength(value: number): Buffer {
  const more = Math.floor(value / 128);
  const byte = Buffer.of((value % 128) + (more > 0 ? 0x80 : 0));
  return more === 0 ? byte : Buffer.concat([byte, encodeLength(more)]);
}
