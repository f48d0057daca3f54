// What happens to a message between the broker and its acknowledgement: spooled first, acknowledged after, in order.
// It adds what is known about a redelivery and decides nothing about it; it never acknowledges what is not on the disk.
import { Deliveries } from './deliveries.ts';
import type { Metrics } from './metrics.ts';
import type { IncomingMessage, MqttConnection } from './mqtt-connection.ts';
import type { Spool } from './spool.ts';

export class Intake {
  readonly #spool: Spool;
  readonly #metrics: Metrics;
  readonly #deliveries: Deliveries;
  /**
   * An earlier process or another bridge may have read messages from the broker session that this process knows nothing
   * of. Ends with the first message that the broker sends for the first time: redeliveries come before it.
   */
  #hasGap = true;
  /** No other bridge had the broker session when this connection began. */
  #isSessionOurs = false;
  #isStopped = false;

  constructor(spool: Spool, deliveries: Deliveries, metrics: Metrics) {
    this.#spool = spool;
    this.#deliveries = deliveries;
    this.#metrics = metrics;
  }

  /** A connection begins. `isRoleSure`: no other bridge can have been made active by now. */
  noteSession(isPresent: boolean, isRoleSure: boolean): void {
    this.#isSessionOurs = isRoleSure;
    if (isPresent) return;
    this.#hasGap = false;
    this.#deliveries.beginSession();
  }

  /** Another bridge was active, and may have read from the broker session. */
  noteOtherBridge(): void {
    this.#hasGap = true;
    this.#isSessionOurs = false;
  }

  take(connection: MqttConnection, message: IncomingMessage, proceed: () => void): void {
    // A message refused here stays unacknowledged, so the broker sends it to the next bridge.
    if (this.#isStopped) return;
    this.#metrics.messagesReceived.inc();
    const { topic, payload, trueBytes, retain, dup, packetId } = message;
    const delivery = packetId === 0 ? null : this.#deliveries.describe(packetId, topic, payload);
    const redeliveryOf = dup && delivery !== null ? this.#deliveries.find(delivery) : null;
    if (redeliveryOf !== null) this.#metrics.redeliveriesKnown.inc();
    const soleReader = dup && !this.#hasGap && this.#isSessionOurs;
    const seq = this.#spool.append(
      { receivedAtMs: Date.now(), topic, payload, retain, dup, soleReader, redeliveryOf, trueBytes },
      delivery,
      () => connection.acknowledge(packetId),
    );
    if (delivery !== null && redeliveryOf === null) this.#deliveries.remember(delivery, seq);
    if (delivery !== null && !dup && this.#isSessionOurs) this.#hasGap = false;
    this.#spool.whenRoomInMemory(proceed);
  }

  stop(): void {
    this.#isStopped = true;
  }
}
