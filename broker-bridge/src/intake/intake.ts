// What happens to a message between the broker and its acknowledgement: spooled first, acknowledged after, in order.
// It adds what is known about a redelivery and decides nothing about it. What is acknowledged is on the disk, but for
// messages beyond their device's limit.
import { Deliveries } from './deliveries.ts';
import type { RateLimits } from './device-rates.ts';
import type { DroppedMessages } from './dropped-messages.ts';
import { FloodGate } from './flood-gate.ts';
import type { Metrics } from '../metrics.ts';
import type { IncomingMessage, MqttConnection } from '../broker/mqtt-connection.ts';
import type { Spool, SpooledMessage } from '../spool/spool.ts';

type Parts = { spool: Spool; deliveries: Deliveries; metrics: Metrics; rates: RateLimits; dropped: DroppedMessages };

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
  readonly #gate: FloodGate<SpooledMessage>;
  #isReading = false;
  /** Until then what comes may have come from another session as well. */
  #overlapsUntilMs = 0;
  /** When the broker's session was read last, as far as this bridge knows; 0 for never. */
  #readAtMs: number;

  constructor({ spool, deliveries, metrics, rates, dropped }: Parts) {
    this.#spool = spool;
    this.#deliveries = deliveries;
    this.#metrics = metrics;
    this.#gate = new FloodGate(rates, dropped, metrics, (message) => {
      // Acknowledged when it came: a redelivery of it is not to be expected.
      spool.append(message, null, () => undefined);
    });
    this.#readAtMs = spool.lastReceivedAtMs;
  }

  /** When the broker's session was read last before the present connection; now, where this bridge never read it. */
  get readUntilMs(): number {
    return this.#readAtMs === 0 ? Date.now() : this.#readAtMs;
  }

  /** A connection begins. `isRoleSure`: no other bridge can have been made active by now. */
  noteSession(isPresent: boolean, isRoleSure: boolean): void {
    this.#isSessionOurs = isRoleSure;
    this.#isReading = true;
    this.#gate.noteAbsence(isPresent ? Date.now() - this.#readAtMs : 0);
    if (isPresent) return;
    this.#hasGap = false;
    this.#deliveries.beginSession();
  }

  /** The session overlaps with others that were read before: for so long the Worker is asked to compare contents. */
  expectRepeats(forMs: number): void {
    this.#overlapsUntilMs = Date.now() + forMs;
  }

  /** The connection is over. */
  noteConnectionEnd(): void {
    if (this.#isReading) this.#readAtMs = Date.now();
    this.#isReading = false;
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
    const { topic, payload, packetId } = message;
    const mayRepeat = Date.now() < this.#overlapsUntilMs;
    const dup = message.dup || mayRepeat;
    const delivery = packetId === 0 ? null : this.#deliveries.describe(packetId, topic, payload);
    const redeliveryOf = message.dup && delivery !== null ? this.#deliveries.find(delivery) : null;
    if (redeliveryOf !== null) this.#metrics.redeliveriesKnown.inc();
    const soleReader = dup && !mayRepeat && !this.#hasGap && this.#isSessionOurs;
    const { retain, trueBytes } = message;
    const item = { receivedAtMs: Date.now(), topic, payload, retain, dup, soleReader, redeliveryOf, trueBytes };
    const acknowledge = (): void => connection.acknowledge(packetId);
    if (this.#gate.admit(item)) {
      const seq = this.#spool.append(item, delivery, acknowledge);
      if (delivery !== null && redeliveryOf === null) this.#deliveries.remember(delivery, seq);
    } else this.#spool.whenCommitted(acknowledge);
    if (delivery !== null && !message.dup && this.#isSessionOurs) this.#hasGap = false;
    this.#spool.whenRoomInMemory(proceed);
  }

  /** Another bridge is to have the session: what is kept back goes first. */
  releaseHeld(): void {
    this.#gate.releaseAll();
  }

  /** Takes nothing more, and spools what is kept back. */
  stop(): void {
    this.#isStopped = true;
    this.#gate.releaseAll();
  }
}
