// Stands between the socket and the MQTT parser, which would keep a whole packet in memory, whatever its size: of a large
// publish only the head passes. It reads no more of MQTT than where packets begin.
import { Transform, type TransformCallback } from 'node:stream';
import type { IPublishPacket } from 'mqtt';
import { publishType, readHeader } from '../../../src/protocol/mqtt-codec/packet-reader.ts';

/** Topic and properties of a device's message need less by far. */
export const maxBodyBytes = 1024 * 1024;
const lengthOfCut = [0x80, 0x80, 0x40];
/** The end of a body that was cut says how long it was. */
const sizeBytes = 4;

/** A publish with a body of `maxBodyBytes` or more passes with one of `maxBodyBytes`: see `payloadBytesOf`. */
export class PacketLimit extends Transform {
  #unread: Buffer = Buffer.alloc(0);
  /** Of the packet under way: bytes that pass, what takes the place of the bytes after them, and the number of those. */
  #passing = 0;
  #substitute = Buffer.alloc(0);
  #dropping = 0;

  override _transform(received: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      // Without a copy: the rest of a large packet would be garbage.
      this.#unread = this.#unread.length === 0 ? received : Buffer.concat([this.#unread, received]);
      done(null, Buffer.concat(Array.from(this.#read())));
    } catch (error) {
      done(error as Error);
    }
  }

  /** What passes of the unread bytes. @throws Error if they cannot be MQTT */
  *#read(): Generator<Buffer> {
    for (;;) {
      const passed = this.#take(this.#passing);
      this.#passing -= passed.length;
      yield passed;
      if (this.#passing > 0) return;
      yield this.#substitute;
      this.#substitute = Buffer.alloc(0);
      this.#dropping -= this.#take(this.#dropping).length;
      const header = readHeader(this.#unread);
      if (header === undefined) return;
      if ('malformed' in header) throw new Error(header.malformed);
      const { headerBytes, bodyBytes } = header;
      this.#passing = headerBytes + bodyBytes;
      if (bodyBytes >= maxBodyBytes) yield this.#cut(headerBytes, bodyBytes);
    }
  }

  /** @returns the header of the packet that passes instead */
  #cut(headerBytes: number, bodyBytes: number): Buffer {
    const [first = 0] = this.#take(headerBytes);
    if (first >> 4 !== publishType) throw new Error(`a packet of ${bodyBytes} bytes`);
    this.#passing = maxBodyBytes - sizeBytes;
    this.#substitute = Buffer.alloc(sizeBytes);
    this.#substitute.writeUInt32BE(bodyBytes);
    this.#dropping = bodyBytes - this.#passing;
    return Buffer.of(first, ...lengthOfCut);
  }

  #take(most: number): Buffer {
    const taken = this.#unread.subarray(0, most);
    this.#unread = this.#unread.subarray(most);
    return taken;
  }
}

/** How long the payload of a packet behind the limit was before it. */
export function payloadBytesOf({ length = 0, payload }: Pick<IPublishPacket, 'length' | 'payload'>): number {
  if (length < maxBodyBytes || payload.length < sizeBytes) return payload.length;
  return (payload as Buffer).readUInt32BE(payload.length - sizeBytes) - length + payload.length;
}
