// Tells whether a message that the broker sends again already lies in the spool.
// It only knows this bridge's own recent past; for anything else the Worker compares contents.
import { crc32 } from 'node:zlib';
import type { SpoolRecord } from './spool-record.ts';

/**
 * As many as MQTT can have under way. Brokers exceed the limit that they are given: mosquitto 2.0.11 had thousands under
 * way after a backlog, and delivered all of them again after the next reconnect.
 */
export const maxRemembered = 65_535;

type Delivery = { packetId: number; topic: string; payload: Buffer };
/** What is left of a record when only a redelivery is to be told. */
export type SpooledDelivery = { packetId: number; brokerSession: number; digest: number };

export class Redeliveries {
  /** By packet identifier; NaN, which equals nothing, where none is known. */
  readonly #digests = new Float64Array(maxRemembered + 1).fill(NaN);

  remember(delivery: Delivery): void {
    this.recall({ packetId: delivery.packetId, digest: digestOf(delivery) });
  }

  recall({ packetId, digest }: { packetId: number; digest: number }): void {
    this.#digests[packetId] = digest;
  }

  isKnown(delivery: Delivery): boolean {
    return this.#digests[delivery.packetId] === digestOf(delivery);
  }

  /** A new broker session numbers its messages anew. */
  forgetAll(): void {
    this.#digests.fill(NaN);
  }
}

export function noteDelivery(record: SpoolRecord): SpooledDelivery {
  const { packetId, brokerSession } = record;
  return { packetId, brokerSession, digest: digestOf(record) };
}

/**
 * Two sums in one number, 53 bits wide, because every message pays for it. It only has to tell a redelivery from another
 * message of the same packet identifier; nobody gains by making two alike.
 */
function digestOf({ topic, payload }: Delivery): number {
  let sum = payload.length;
  for (let at = 0; at < payload.length; at += 1) sum = Math.imul(sum ^ (payload[at] ?? 0), 0x9e3779b1);
  sum ^= sum >>> 15;
  return (sum & 0x1fffff) * 2 ** 32 + crc32(payload, crc32(topic));
}
