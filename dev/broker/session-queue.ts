// What one persistent session has still to receive, as MQTT 3.1.1 orders it: what was sent and not acknowledged is sent
// again first, in its order, with its packet identifiers and DUP (MQTT-4.4.0-1, MQTT-4.6.0-1); what came later follows.
// Knows neither subscriptions nor rights.
import type { Client } from 'aedes';
import { writeToStream } from 'mqtt-packet';

export type QueuedMessage = { topic: string; payload: string | Buffer; qos: 1 | 2; retain: boolean };
/** `released` is a message of QoS 2 that the client has: PUBREL takes its place. */
type InFlight = QueuedMessage | 'released';

export type QueueLimits = { messages: number; bytes: number };

/** Unacknowledged messages on the wire; a client that cannot take them all keeps the rest here. */
const maxInFlight = 200;
const lastPacketId = 65_535;

export class SessionQueue {
  readonly #limits: QueueLimits;
  readonly #mayReceive: (client: Client, topic: string) => boolean;
  /** By packet identifier, in the order in which they were sent first. */
  readonly #inFlight = new Map<number, InFlight>();
  readonly #waiting: QueuedMessage[] = [];
  #waitingBytes = 0;
  #packetId = 0;
  #client: Client | undefined;
  #isAwaitingDrain = false;

  constructor(limits: QueueLimits, mayReceive: (client: Client, topic: string) => boolean) {
    this.#limits = limits;
    this.#mayReceive = mayReceive;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get isAttached(): boolean {
    return this.#client !== undefined;
  }

  /** False where there is no room. */
  add(message: QueuedMessage): boolean {
    const bytes = sizeOf(message);
    const { messages, bytes: maxBytes } = this.#limits;
    if (this.#waiting.length >= messages || this.#waitingBytes + bytes > maxBytes) return false;
    this.#waiting.push(message);
    this.#waitingBytes += bytes;
    this.#sendMore();
    return true;
  }

  /** From now on this connection receives, after everything that another one has not acknowledged. */
  attach(client: Client): void {
    this.#client = client;
    this.#isAwaitingDrain = false;
    for (const [messageId, message] of this.#inFlight) this.#write(client, messageId, message, true);
    this.#sendMore();
  }

  detach(client: Client): void {
    if (this.#client === client) this.#client = undefined;
  }

  acknowledge(messageId: number): void {
    if (this.#inFlight.delete(messageId)) this.#sendMore();
  }

  release(messageId: number): void {
    if (this.#inFlight.has(messageId)) this.#inFlight.set(messageId, 'released');
  }

  #sendMore(): void {
    const client = this.#client;
    while (client?.conn.writable === true && this.#inFlight.size < maxInFlight) {
      if (client.conn.writableNeedDrain) {
        this.#awaitDrain(client);
        return;
      }
      const message = this.#waiting.shift();
      if (message === undefined) return;
      this.#waitingBytes -= sizeOf(message);
      if (!this.#mayReceive(client, message.topic)) continue;
      const messageId = this.#nextPacketId();
      this.#inFlight.set(messageId, message);
      this.#write(client, messageId, message, false);
    }
  }

  #awaitDrain(client: Client): void {
    if (this.#isAwaitingDrain) return;
    this.#isAwaitingDrain = true;
    client.conn.once('drain', () => {
      if (this.#client !== client) return;
      this.#isAwaitingDrain = false;
      this.#sendMore();
    });
  }

  #write({ conn }: Client, messageId: number, message: InFlight, dup: boolean): void {
    const packet =
      message === 'released'
        ? ({ cmd: 'pubrel', messageId } as const)
        : ({ cmd: 'publish', ...message, messageId, dup } as const);
    writeToStream(packet, conn);
  }

  /** There are far more of them than messages in flight. */
  #nextPacketId(): number {
    do this.#packetId = (this.#packetId % lastPacketId) + 1;
    while (this.#inFlight.has(this.#packetId));
    return this.#packetId;
  }
}

function sizeOf({ topic, payload }: QueuedMessage): number {
  return topic.length + payload.length;
}
