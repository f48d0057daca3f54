// What happens to a message between the broker and its acknowledgement: spooled first, acknowledged after, in order.
// It must not look into payloads, and never acknowledges what is not on the disk.
import { randomInt } from 'node:crypto';
import type { Metrics } from './metrics.ts';
import type { IncomingMessage, MqttConnection } from './mqtt-connection.ts';
import { Redeliveries, type SpooledDelivery } from './redeliveries.ts';
import type { Spool } from './spool.ts';

export class Intake {
  readonly #spool: Spool;
  readonly #metrics: Metrics;
  readonly #redeliveries = new Redeliveries();
  #brokerSession: number;
  /**
   * Somebody may have read from the session what this process does not know of: an earlier process, or another bridge.
   * Over with the first message that the broker sends for the first time, because what it sends again comes before.
   */
  #hasGap = true;
  /** Since the connection began: nobody else had the session when it did. */
  #isSessionOurs = false;
  #isStopped = false;

  /** `recent` are the spool's last messages, so that a restart does not spool a redelivery twice. */
  constructor(spool: Spool, recent: SpooledDelivery[], metrics: Metrics) {
    this.#spool = spool;
    this.#metrics = metrics;
    this.#brokerSession = recent.at(-1)?.brokerSession ?? nameSession();
    for (const delivery of recent) {
      if (delivery.packetId > 0 && delivery.brokerSession === this.#brokerSession) this.#redeliveries.recall(delivery);
    }
  }

  /** A connection begins. `isRoleSure`: no other bridge can have been made active by now. */
  noteSession(isPresent: boolean, isRoleSure: boolean): void {
    this.#isSessionOurs = isRoleSure;
    if (isPresent) return;
    this.#hasGap = false;
    this.#redeliveries.forgetAll();
    this.#brokerSession = nameSession();
  }

  /** Another bridge was active: what it has read comes again where the broker did not hear its acknowledgement. */
  noteOtherBridge(): void {
    this.#hasGap = true;
    this.#isSessionOurs = false;
  }

  take(connection: MqttConnection, message: IncomingMessage, proceed: () => void): void {
    // A message refused here stays unacknowledged, so the broker sends it to the next bridge.
    if (this.#isStopped) return;
    const acknowledge = (): void => connection.acknowledge(message.packetId);
    this.#metrics.messagesReceived.inc();
    if (message.packetId > 0 && message.dup && this.#redeliveries.isKnown(message)) {
      this.#metrics.redeliveriesKnown.inc();
      this.#spool.afterPending(acknowledge);
    } else {
      if (message.packetId > 0) this.#redeliveries.remember(message);
      // Sent again and unknown, but everything that was read before is known: it was lost on its first way here.
      const dup = message.dup && (this.#hasGap || !this.#isSessionOurs);
      const record = { ...message, dup, receivedAtMs: Date.now(), brokerSession: this.#brokerSession };
      this.#spool.append(record, acknowledge);
      if (message.packetId > 0 && !message.dup && this.#isSessionOurs) this.#hasGap = false;
    }
    this.#spool.whenRoomInMemory(proceed);
  }

  stop(): void {
    this.#isStopped = true;
  }
}

function nameSession(): number {
  return randomInt(1, 2 ** 32);
}
