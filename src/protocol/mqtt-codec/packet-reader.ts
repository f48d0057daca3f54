// Cuts a stream of bytes into MQTT packets, however the bytes were divided: a packet may span many frames, and a frame may
// hold many packets. Copies each byte at most twice. Reads nothing but the fixed header (MQTT 2.2).
import { join } from './byte-cursor.ts';
import type { MalformedReason } from './malformed.ts';

export type RawPacket = { type: number; flags: number; body: Uint8Array };
export type Unreadable = { malformed: MalformedReason };

/** PUBLISH and PUBACK (MQTT 2.2.1). */
export const publishType = 3;
export const pubackType = 4;

const none = new Uint8Array(0);

export class PacketReader {
  #chunks: Uint8Array[] = [];
  #length = 0;
  /** Bytes without which nothing more can be read. */
  #needed = 2;

  /** Bytes that wait for the rest of their packet, or to be read. */
  get waiting(): number {
    return this.#length;
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
  }

  /** The type of the packet that `next` has to give, readable or not; undefined if there is none. */
  nextType(maxBytes: number): number | undefined {
    return this.#measure(maxBytes) === undefined ? undefined : (this.rest()[0] ?? 0) >> 4;
  }

  /** The next packet; undefined if its end has not come. After a problem there is nothing more to read. */
  next(maxBytes: number): RawPacket | Unreadable | undefined {
    const measured = this.#measure(maxBytes);
    if (measured === undefined || 'malformed' in measured) return measured;
    const { headerBytes, length } = measured;
    const bytes = this.rest();
    this.#keep(bytes.subarray(length));
    const first = bytes[0] ?? 0;
    return { type: first >> 4, flags: first & 15, body: bytes.subarray(headerBytes, length) };
  }

  #measure(maxBytes: number): { headerBytes: number; length: number } | Unreadable | undefined {
    if (this.#length < this.#needed) return undefined;
    const bytes = this.rest();
    const header = readHeader(bytes);
    if (header === undefined) {
      this.#needed = bytes.length + 1;
      return undefined;
    }
    if ('malformed' in header) return header;
    const { headerBytes, bodyBytes } = header;
    const length = headerBytes + bodyBytes;
    if (length > maxBytes) return { malformed: 'packet_too_large' };
    if (bytes.length >= length) return { headerBytes, length };
    this.#needed = length;
    return undefined;
  }

  /** All bytes that were not read. */
  rest(): Uint8Array {
    if (this.#chunks.length > 1) this.#chunks = [join(this.#chunks)];
    return this.#chunks[0] ?? none;
  }

  #keep(rest: Uint8Array): void {
    this.#chunks = rest.length > 0 ? [rest] : [];
    this.#length = rest.length;
    this.#needed = 2;
  }
}

/** Undefined while its end has not come. */
export function readHeader(bytes: Uint8Array): { headerBytes: number; bodyBytes: number } | Unreadable | undefined {
  let bodyBytes = 0;
  let scale = 1;
  for (let at = 1; at <= 4; at++) {
    const byte = bytes[at];
    if (byte === undefined) return undefined;
    bodyBytes += (byte & 127) * scale;
    if (byte < 128) return { headerBytes: at + 1, bodyBytes };
    scale *= 128;
  }
  return { malformed: 'remaining_length_too_long' };
}
