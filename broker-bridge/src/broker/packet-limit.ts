// Stands between the socket and the MQTT parser, which would keep a whole packet in memory, whatever its size: of a large
// publish only the head passes. It reads no more of MQTT than where packets begin and payloads lie.
import { Transform, type TransformCallback } from 'node:stream';

export type PacketLimits = {
  isMqtt5: boolean;
  /** A longer payload is cut. */
  maxPayloadBytes: number;
};

const publishType = 3;
/** The longest fixed header: type and flags, and four bytes of length. */
const maxHeaderBytes = 5;
/** What can stand before the properties of a publish: topic, packet id and the length of the properties. */
const maxPrefixBytes = 2 + 65_535 + 2 + 4;
/** No packet but a publish is that large. */
const maxOtherBytes = 1024 * 1024;
const sizeBytes = 8;

type Publish = {
  flags: number;
  remainingBytes: number;
  /** Bytes of the packet that were read, after its fixed header. */
  readBytes: number;
  /** The first bytes, until they are enough to know where the payload begins. */
  prefix: Buffer[];
  payload: { kept: Buffer[]; from: number; until: number } | null;
  topicAndId: Buffer;
};

/**
 * A payload that arrives behind this stream with more than `maxPayloadBytes` was cut: see `readCutPayload`. Publishes of
 * about that size and more lose their properties.
 */
export class PacketLimit extends Transform {
  readonly #limits: PacketLimits;
  /** The start of a fixed header that lies in two chunks. */
  #rest: Buffer | null = null;
  #passBytes = 0;
  #publish: Publish | null = null;

  constructor(limits: PacketLimits) {
    super();
    this.#limits = limits;
  }

  override _transform(received: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const chunk = this.#rest === null ? received : Buffer.concat([this.#rest, received]);
    this.#rest = null;
    try {
      this.#read(chunk);
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  /** @throws Error where the packet cannot be one */
  #read(chunk: Buffer): void {
    let at = 0;
    /** What lies from here to `at` passes as it is. */
    let passFrom = 0;
    while (at < chunk.length) {
      if (this.#publish !== null) {
        at += this.#readPublish(this.#publish, chunk.subarray(at));
        passFrom = at;
        continue;
      }
      if (this.#passBytes > 0) {
        const bytes = Math.min(this.#passBytes, chunk.length - at);
        this.#passBytes -= bytes;
        at += bytes;
        continue;
      }
      const header = readFixedHeader(chunk, at);
      if (header === null) {
        this.#rest = Buffer.from(chunk.subarray(at));
        break;
      }
      const { flags, remainingBytes, length } = header;
      const isPublish = flags >> 4 === publishType;
      if (!isPublish && remainingBytes > maxOtherBytes) throw new Error(`a packet of ${remainingBytes} bytes`);
      if (isPublish && remainingBytes > this.#limits.maxPayloadBytes) {
        if (at > passFrom) this.push(chunk.subarray(passFrom, at));
        const none = { readBytes: 0, prefix: [], payload: null, topicAndId: Buffer.alloc(0) };
        this.#publish = { flags, remainingBytes, ...none };
        passFrom = at + length;
      } else {
        this.#passBytes = remainingBytes;
      }
      at += length;
    }
    if (at > passFrom) this.push(chunk.subarray(passFrom, at));
  }

  /** Answers how much of the chunk belongs to the packet. */
  #readPublish(publish: Publish, chunk: Buffer): number {
    const part = chunk.subarray(0, publish.remainingBytes - publish.readBytes);
    const from = publish.readBytes;
    publish.readBytes += part.length;
    if (publish.payload === null) {
      publish.prefix.push(Buffer.from(part));
      if (publish.readBytes >= Math.min(publish.remainingBytes, maxPrefixBytes)) this.#findPayload(publish);
    } else keep(publish.payload, part, from);
    if (publish.readBytes === publish.remainingBytes) {
      this.#pushRewritten(publish);
      this.#publish = null;
    }
    return part.length;
  }

  #findPayload(publish: Publish): void {
    const { flags, remainingBytes } = publish;
    const prefix = Buffer.concat(publish.prefix);
    publish.prefix = [];
    const hasPacketId = (flags & 0b0110) !== 0;
    const topicEnd = 2 + prefix.readUInt16BE(0) + (hasPacketId ? 2 : 0);
    let from = topicEnd;
    if (this.#limits.isMqtt5) {
      const properties = readLength(prefix, topicEnd);
      from = properties === null ? Infinity : properties.end + properties.value;
    }
    if (from > remainingBytes) throw new Error('a publish that ends before its payload');
    const payloadBytes = remainingBytes - from;
    const { maxPayloadBytes } = this.#limits;
    const keptBytes = payloadBytes <= maxPayloadBytes ? payloadBytes : maxPayloadBytes + 1 - sizeBytes;
    publish.topicAndId = Buffer.from(prefix.subarray(0, topicEnd));
    publish.payload = { kept: [], from, until: from + keptBytes };
    keep(publish.payload, prefix, 0);
  }

  #pushRewritten({ flags, remainingBytes, topicAndId, payload }: Publish): void {
    if (payload === null) return;
    const parts = [topicAndId, ...(this.#limits.isMqtt5 ? [Buffer.of(0)] : []), ...payload.kept];
    if (payload.until < remainingBytes) {
      const size = Buffer.alloc(sizeBytes);
      size.writeBigUInt64BE(BigInt(remainingBytes - payload.from));
      parts.push(size);
    }
    const body = Buffer.concat(parts);
    this.push(Buffer.concat([Buffer.of(flags), encodeLength(body.length), body]));
  }
}

/** The head of a payload that was cut, and how long the payload was. */
export function readCutPayload(payload: Buffer): { head: Buffer; trueBytes: number } {
  const end = payload.length - sizeBytes;
  return { head: payload.subarray(0, end), trueBytes: Number(payload.readBigUInt64BE(end)) };
}

/** Adds what a part of the packet, which begins at `offset`, holds of the wanted range. */
function keep({ kept, from, until }: { kept: Buffer[]; from: number; until: number }, part: Buffer, offset: number) {
  const wanted = part.subarray(Math.max(0, from - offset), Math.max(0, until - offset));
  if (wanted.length > 0) kept.push(Buffer.from(wanted));
}

/** Null while its bytes have not all come. */
function readFixedHeader(chunk: Buffer, at: number) {
  const length = readLength(chunk, at + 1);
  if (length !== null) return { flags: chunk[at] ?? 0, remainingBytes: length.value, length: length.end - at };
  if (chunk.length - at >= maxHeaderBytes) throw new Error('a packet without a length');
  return null;
}

/** A variable byte integer (MQTT-1.5.5); null where it does not end. */
function readLength(bytes: Buffer, at: number): { value: number; end: number } | null {
  let value = 0;
  for (let index = 0; index < 4; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) return null;
    value += (byte & 0x7f) * 128 ** index;
    if (byte < 0x80) return { value, end: at + index + 1 };
  }
  return null;
}

function encodeLength(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  do {
    const more = Math.floor(rest / 128);
    bytes.push((rest % 128) + (more > 0 ? 0x80 : 0));
    rest = more;
  } while (rest > 0);
  return Buffer.from(bytes);
}
