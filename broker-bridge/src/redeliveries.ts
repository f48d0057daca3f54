// Tells whether a message that the broker sends again already lies in the spool.
// It only knows this bridge's own recent past; for anything else the Worker compares contents.
import { hash } from 'node:crypto';
import type { SpoolRecord } from './spool-record.ts';

/**
 * As many as MQTT can have under way. Brokers exceed the limit that they are given: mosquitto 2.0.11 had thousands under
 * way after a backlog, and delivered all of them again after the next reconnect.
 */
export const maxRemembered = 65_535;

type Delivery = { packetId: number; topic: string; payload: Buffer };
/** What is left of a record when only a redelivery is to be told. */
export type SpooledDelivery = { packetId: number; brokerSession: number; digest: string };

export class Redeliveries {
  readonly #digestByPacketId = new Map<number, string>();

  remember(delivery: Delivery): void {
    this.recall({ packetId: delivery.packetId, digest: digestOf(delivery) });
  }

  recall({ packetId, digest }: { packetId: number; digest: string }): void {
    this.#digestByPacketId.set(packetId, digest);
  }

  isKnown(delivery: Delivery): boolean {
    return this.#digestByPacketId.get(delivery.packetId) === digestOf(delivery);
  }

  /** A new broker session numbers its messages anew. */
  forgetAll(): void {
    this.#digestByPacketId.clear();
  }
}

export function noteDelivery(record: SpoolRecord): SpooledDelivery {
  const { packetId, brokerSession } = record;
  return { packetId, brokerSession, digest: digestOf(record) };
}

function digestOf({ topic, payload }: Delivery): string {
  return hash('sha1', Buffer.concat([Buffer.from(`${topic}\n`), payload]), 'base64');
}
