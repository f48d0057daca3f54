// Tells whether a message that the broker sends again already lies in the spool.
// It only knows this bridge's own recent past; for anything else the Worker compares contents.
import { hash } from 'node:crypto';

const maxRemembered = 1000;

export type Delivery = { packetId: number; topic: string; payload: Buffer };

export class Redeliveries {
  readonly #digestByPacketId = new Map<number, string>();

  remember(delivery: Delivery): void {
    // Deleted first, so that the map stays in the order of arrival.
    this.#digestByPacketId.delete(delivery.packetId);
    this.#digestByPacketId.set(delivery.packetId, digest(delivery));
    if (this.#digestByPacketId.size <= maxRemembered) return;
    for (const oldest of this.#digestByPacketId.keys()) {
      this.#digestByPacketId.delete(oldest);
      return;
    }
  }

  isKnown(delivery: Delivery): boolean {
    return this.#digestByPacketId.get(delivery.packetId) === digest(delivery);
  }

  /** A new broker session numbers its messages anew. */
  forgetAll(): void {
    this.#digestByPacketId.clear();
  }
}

function digest({ topic, payload }: Delivery): string {
  return `${topic}\n${hash('sha1', payload, 'base64')}`;
}
