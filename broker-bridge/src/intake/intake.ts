// What happens to a message between the broker and its acknowledgement: spooled first, acknowledged after, in order.
// It adds what is known about a redelivery and decides nothing about it. What is acknowledged is on the disk, but for
// messages beyond their device's limit.
import type { Deliveries } from './deliveries.ts';
import type { FloodGate } from './flood-gate.ts';
import type { Metrics } from '../metrics.ts';
import type { IncomingMessage, MqttConnection } from '../broker/mqtt-connection.ts';
import type { Spool } from '../spool/spool.ts';

type Parts = { spool: Spool; deliveries: Deliveries; metrics: Metrics; floodGate: FloodGate };

export function createIntake({ spool, deliveries, metrics, floodGate }: Parts) {
  /**
   * An earlier process or another bridge may have read messages from the broker session that are unknown here. Ends with the first
   * message that the broker sends for the first time: redeliveries come before it.
   */
  let hasGap = true;
  /** No other bridge had the broker session when this connection began. */
  let isSessionOurs = false;
  let isStopped = false;
  let isReading = false;
  /** When the broker's session was read last, as far as this bridge knows; 0 for never. */
  let readAtMs = spool.lastReceivedAtMs;
  // Acknowledged when it came: a redelivery of it is not to be expected.
  floodGate.onReleased = (message) => spool.append(message, null, () => undefined);
  return { readUntilMs, noteSession, noteConnectionEnd, noteOtherBridge, take, stop };

  /** When the broker's session was read last before the present connection; now, if this bridge never read it. */
  function readUntilMs(): number {
    return readAtMs === 0 ? Date.now() : readAtMs;
  }

  /** A connection begins. `isRoleSure`: no other bridge can have been made active by now. */
  function noteSession(isPresent: boolean, isRoleSure: boolean): void {
    isSessionOurs = isRoleSure;
    isReading = true;
    floodGate.noteAbsence(isPresent ? Date.now() - readAtMs : 0);
    if (isPresent) return;
    hasGap = false;
    deliveries.beginSession();
  }

  function noteConnectionEnd(): void {
    if (isReading) readAtMs = Date.now();
    isReading = false;
  }

  /** Another bridge was active and may have read from the broker session. */
  function noteOtherBridge(): void {
    hasGap = true;
    isSessionOurs = false;
  }

  function take(connection: MqttConnection, message: IncomingMessage, proceed: () => void): void {
    // A message refused here stays unacknowledged, so the broker sends it to the next bridge.
    if (isStopped) return;
    metrics.messagesReceived.inc();
    const { topic, payload, packetId, dup, retain, trueBytes } = message;
    const delivery = packetId === 0 ? null : deliveries.describe(packetId, topic, payload);
    const redeliveryOf = dup && delivery !== null ? deliveries.find(delivery) : null;
    if (redeliveryOf !== null) metrics.redeliveriesKnown.inc();
    const soleReader = dup && !hasGap && isSessionOurs;
    const item = { receivedAtMs: Date.now(), topic, payload, retain, dup, soleReader, redeliveryOf, trueBytes };
    const acknowledge = (): void => connection.acknowledge(packetId);
    if (floodGate.admit(item)) {
      const seq = spool.append(item, delivery, acknowledge);
      if (delivery !== null && redeliveryOf === null) deliveries.remember(delivery, seq);
    } else spool.whenCommitted(acknowledge);
    if (delivery !== null && !dup && isSessionOurs) hasGap = false;
    spool.whenRoomInMemory(proceed);
  }

  /** Takes no more messages and spools those that the flood gate keeps. */
  function stop(): void {
    isStopped = true;
    floodGate.releaseAll();
  }
}
