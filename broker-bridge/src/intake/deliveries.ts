// Remembers which packet ids of the present broker session were spooled, with what content and under which `seq`. It
// supplies facts about a redelivery; what follows from them is the Worker's decision.
import { crc32 } from 'node:zlib';

/** One delivery at QoS 1, as it is kept with its message in the spool. */
export type Delivery = { session: number; packetId: number; digest: number };

const packetIds = 65_536;

export class Deliveries {
  /** By packet id. NaN, which equals nothing, stands for no delivery. */
  readonly #digests = new Float64Array(packetIds).fill(NaN);
  readonly #seqs = new Float64Array(packetIds);
  /** Counts the broker sessions of this process; 0 is the session that the spool remembers. */
  #session = 0;

  /** `spooled`: packet id, digest and `seq` of each, one after the other. */
  constructor(spooled: Float64Array) {
    for (let at = 0; at + 2 < spooled.length; at += 3) {
      const [packetId = 0, digest = NaN, seq = 0] = spooled.subarray(at, at + 3);
      this.remember({ packetId, digest }, seq);
    }
  }

  /** A new broker session numbers its messages anew. */
  beginSession(): void {
    this.#session += 1;
    this.#digests.fill(NaN);
  }

  describe(packetId: number, topic: string, payload: Buffer): Delivery {
    return { session: this.#session, packetId, digest: digestOf(topic, payload) };
  }

  /** The `seq` under which the same delivery was spooled before; null if none was. */
  find({ packetId, digest }: Delivery): number | null {
    return this.#digests[packetId] === digest ? (this.#seqs[packetId] ?? null) : null;
  }

  remember({ packetId, digest }: Omit<Delivery, 'session'>, seq: number): void {
    this.#digests[packetId] = digest;
    this.#seqs[packetId] = seq;
  }
}

/** 53 bits, cheap for every message: tells a redelivery from another message of the packet id, and resists no forgery. */
function digestOf(topic: string, payload: Buffer): number {
  let sum = payload.length;
  for (let at = 0; at < payload.length; at += 1) sum = Math.imul(sum ^ (payload[at] ?? 0), 0x9e3779b1);
  sum ^= sum >>> 15;
  return (sum & 0x1fffff) * 2 ** 32 + crc32(payload, crc32(topic));
}
