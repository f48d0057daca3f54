// A spool with a reader that keeps what it is given, and with the intake before it, inside the test's process. Asserts
// nothing.
import { Deliveries } from '../../broker-bridge/src/intake/deliveries.ts';
import { createFloodGate } from '../../broker-bridge/src/intake/flood-gate.ts';
import { createIntake } from '../../broker-bridge/src/intake/intake.ts';
import type { Log } from '../../node-service/log.ts';
import { createMetrics } from '../../broker-bridge/src/metrics.ts';
import type { IncomingMessage, MqttConnection } from '../../broker-bridge/src/broker/mqtt-connection.ts';
import type { SpoolItem } from '../../broker-bridge/src/spool/database.ts';
import { openSpool, type Spool, type SpooledMessage } from '../../broker-bridge/src/spool/spool.ts';
import { Changes } from '../changes.ts';

const topic = '/sys/pk/d1/thing/event/property/post';

export type SpoolOptions = { maxBytes?: number; bridgeId?: string };

export class OpenSpool {
  readonly changes: Changes;
  readonly items: SpoolItem[] = [];
  readonly committed: string[] = [];
  readonly acknowledged: number[] = [];
  readonly spool: Spool;
  readonly intake: ReturnType<typeof createIntake>;

  private constructor(spool: Spool, deliveries: Float64Array, changes: Changes) {
    this.changes = changes;
    this.spool = spool;
    const metrics = createMetrics();
    const floodGate = createFloodGate({ messagesPerSecond: 1e6, burst: 1e6 }, metrics);
    this.intake = createIntake({ spool, deliveries: new Deliveries(deliveries), metrics, floodGate });
    spool.start((items) => {
      this.items.push(...items);
      this.changes.note();
      return [];
    });
  }

  static async open(
    dir: string,
    { maxBytes = 10_000_000, bridgeId = 'bridge-1' }: SpoolOptions = {},
  ): Promise<OpenSpool> {
    const changes = new Changes();
    const note = (): void => changes.note();
    const log: Log = { debug: note, info: note, warn: note, error: note };
    const { spool, deliveries } = await openSpool({ dir, maxBytes, bridgeId, log });
    return new OpenSpool(spool, deliveries, changes);
  }

  get payloads(): string[] {
    return this.items.map((item) => item.payload.toString());
  }

  add(...payloads: string[]): void {
    for (const payload of payloads) {
      this.spool.append(messageOf(payload), null, () => {
        this.committed.push(payload);
        this.changes.note();
      });
    }
  }

  async addAndWait(...payloads: string[]): Promise<void> {
    const before = this.committed.length;
    this.add(...payloads);
    await this.changes.until('all committed', () => this.committed.length === before + payloads.length);
  }

  /** From the broker, in the present broker session. */
  async receive(...messages: Pick<IncomingMessage, 'packetId' | 'payload' | 'dup'>[]): Promise<void> {
    const before = this.acknowledged.length;
    const acknowledge = (packetId: number): void => {
      this.acknowledged.push(packetId);
      this.changes.note();
    };
    const connection = { acknowledge } as unknown as MqttConnection;
    for (const one of messages)
      this.intake.take(connection, { topic, retain: false, trueBytes: null, ...one }, () => undefined);
    await this.changes.until('all spooled', () => this.acknowledged.length === before + messages.length);
  }

  finish(...payloads: string[]): void {
    for (const item of this.items) if (payloads.includes(item.payload.toString())) this.spool.markDone(item);
  }

  /** Finishes items as they are handed out, until there were `count`. */
  async finishAll(count: number): Promise<void> {
    for (let done = 0; done < count;) {
      await this.changes.until('more from the disk', () => this.items.length > done);
      const given = this.items.slice(done);
      done += given.length;
      for (const item of given) this.spool.markDone(item);
    }
  }

  async untilItems(count: number): Promise<void> {
    await this.changes.until(
      () => `${count} items, there are ${this.items.length}`,
      () => this.items.length === count,
    );
  }
}

export function messageOf(payload: string): SpooledMessage {
  const facts = { retain: false, dup: false, soleReader: false, redeliveryOf: null, trueBytes: null };
  return { receivedAtMs: 1_700_000_000_000, topic, payload: Buffer.from(payload), ...facts };
}
