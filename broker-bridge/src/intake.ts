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

  noteSession(isPresent: boolean): void {
    if (isPresent) return;
    this.#redeliveries.forgetAll();
    this.#brokerSession = nameSession();
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
      const record = { ...message, receivedAtMs: Date.now(), brokerSession: this.#brokerSession };
      this.#spool.append(record, acknowledge);
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
