// Reads the fields of one packet's body (MQTT 1.5) and never beyond its end; joins parts of bytes. Knows no packet.
import { MalformedPacketError } from './malformed.ts';

// MQTT-1.5.3-3: a byte order mark is a character like any other.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class ByteCursor {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  byte(): number {
    const value = this.#bytes[this.#at];
    if (value === undefined) throw new MalformedPacketError('body_too_short');
    this.#at += 1;
    return value;
  }

  uint16(): number {
    return this.byte() * 256 + this.byte();
  }

  uint32(): number {
    return this.uint16() * 65_536 + this.uint16();
  }

  /** MQTT5 1.5.5, at most four bytes. */
  variable(): number {
    let value = 0;
    for (let scale = 1; scale <= 2_097_152; scale *= 128) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw new MalformedPacketError('remaining_length_too_long');
  }

  take(length: number): Uint8Array {
    if (length > this.left) throw new MalformedPacketError('body_too_short');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  rest(): Uint8Array {
    return this.take(this.left);
  }

  binary(): Uint8Array {
    return this.take(this.uint16());
  }

  text(): string {
    const text = textOf(this.binary());
    if (text === undefined) throw new MalformedPacketError('text_not_utf8');
    if (text.includes('\0')) throw new MalformedPacketError('text_with_nul');
    return text;
  }

  /** A part of this body with a length of its own. */
  part(length: number): ByteCursor {
    return new ByteCursor(this.take(length));
  }

  /** @throws MalformedPacketError if bytes are left */
  end(): void {
    if (this.left > 0) throw new MalformedPacketError('body_too_long');
  }
}

export function join(parts: readonly ArrayLike<number>[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Undefined if the bytes are no UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
