// The bridge's way up from the spool, over real HTTP, to a stand-in for the Worker that can fail. Asserts nothing.
import { openDeadLetters } from '../../broker-bridge/src/uplink/dead-letters.ts';
import { createFloodGate } from '../../broker-bridge/src/intake/flood-gate.ts';
import type { Log } from '../../node-service/log.ts';
import { createMetrics } from '../../broker-bridge/src/metrics.ts';
import { openSpool, type Spool } from '../../broker-bridge/src/spool/spool.ts';
import { createUplinkClient } from '../../broker-bridge/src/uplink/client.ts';
import { createUplink } from '../../broker-bridge/src/uplink/uplink.ts';
import { messageOf } from './open-spool.ts';
import { bridgeSecret, makeSpoolDir } from './processes.ts';
import { reportTopic } from '../clients/mqtt-client.ts';
import { WorkerSide } from '../worker/worker-side.ts';

export const noLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
export const maxTries = 3;
export const deadLettersMaxBytes = 10_485_760;

export class UplinkRig {
  readonly dir = makeSpoolDir();
  readonly worker: WorkerSide;
  spool!: Spool;
  uplink!: ReturnType<typeof createUplink>;

  private constructor(worker: WorkerSide) {
    this.worker = worker;
  }

  static async start(): Promise<UplinkRig> {
    const rig = new UplinkRig(await WorkerSide.start());
    await rig.open();
    return rig;
  }

  async stop(): Promise<void> {
    await this.close();
    await this.worker.stop();
  }

  /** Spool and uplink; with the messages that are on the disk. */
  async open(secret = bridgeSecret, log = noLog, answerTimeoutMs = 30_000): Promise<void> {
    const { dir } = this;
    ({ spool: this.spool } = await openSpool({ dir, maxBytes: 100_000_000, bridgeId: 'bridge-1', log: noLog }));
    const metrics = createMetrics();
    this.uplink = createUplink({
      spool: this.spool,
      client: createUplinkClient(this.worker.url, secret, answerTimeoutMs),
      deadLetters: openDeadLetters({ dir, maxBytes: deadLettersMaxBytes }),
      log,
      metrics,
      floodGate: createFloodGate({ messagesPerSecond: 1e6, burst: 1e6 }, metrics),
      maxTries,
      stalledAfterMs: 60_000,
      onStall: () => undefined,
    });
    this.uplink.start();
  }

  async close(): Promise<void> {
    await this.uplink.drain(0);
    await this.spool.close();
  }

  spoolReport(device: string, payload: string, onCommitted = (): void => undefined): void {
    const message = { ...messageOf(payload), receivedAtMs: Date.now(), topic: reportTopic(device) };
    this.spool.append(message, null, onCommitted);
  }

  /** Reports named `device:number`, the devices taking turns. */
  spoolReports(count: number, devices: number): void {
    for (let n = 0; n < count; n += 1) this.spoolReport(`d${n % devices}`, `d${n % devices}:${n}`);
  }

  untilEffects(count: number): Promise<void> {
    const { worker } = this;
    return worker.changes.until(
      () => `${count} effects, there are ${worker.effects.length}`,
      () => worker.effects.length === count,
    );
  }

  untilEmpty(): Promise<void> {
    return this.worker.changes.until('an empty spool', () => this.spool.depth === 0);
  }

  /** Reports that took effect behind a later one of the same device, and whatever the Worker should never see. */
  disorders(): string[] {
    const lastByDevice = new Map<string, number>();
    const late = this.worker.effects.filter((effect) => {
      const [device = '', number] = effect.split(':');
      const isLate = Number(number) <= (lastByDevice.get(device) ?? -1);
      lastByDevice.set(device, Number(number));
      return isLate;
    });
    return [...late, ...this.worker.violations];
  }
}
