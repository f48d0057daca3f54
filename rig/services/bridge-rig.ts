// One bridge under test: a real broker, the stand-in for the Worker, bridge processes, devices, and one close() for all.
import { bridgeEnvironment, BridgeProcess, makeSpoolDir, unlimitedDevices } from './processes.ts';
import { findFreePort } from '../ports.ts';
import { Device } from '../clients/mqtt-client.ts';
import { WorkerSide } from '../worker/worker-side.ts';

type Broker = { url: string; stop: () => Promise<unknown> };

export class BridgeRig<B extends Broker> {
  broker: B;
  readonly worker: WorkerSide;
  readonly spoolDir = makeSpoolDir();
  /** For the one bridge whose health a test reads. */
  readonly health: { HEALTH_PORT: string };
  readonly #environment: Record<string, string>;
  readonly #bridges: BridgeProcess[] = [];
  readonly #devices: Device[] = [];

  private constructor(broker: B, worker: WorkerSide, healthPort: number, environment: Record<string, string>) {
    this.broker = broker;
    this.worker = worker;
    this.health = { HEALTH_PORT: String(healthPort) };
    this.#environment = environment;
  }

  /** Starts the Worker's side; bridges and devices are started by the test. */
  static async start<B extends Broker>(broker: B, environment: Record<string, string> = {}): Promise<BridgeRig<B>> {
    return new BridgeRig(broker, await WorkerSide.start(), await findFreePort(), environment);
  }

  startBridge(environment: Record<string, string> = {}): BridgeProcess {
    const bridge = new BridgeProcess({
      ...bridgeEnvironment({ workerUrl: this.worker.url, mqttUrl: this.broker.url, spoolDir: this.spoolDir }),
      ...unlimitedDevices,
      ...this.#environment,
      ...environment,
    });
    this.#bridges.push(bridge);
    return bridge;
  }

  async connectDevice(name: string): Promise<Device> {
    const device = await Device.connect(this.broker.url, name);
    this.#devices.push(device);
    return device;
  }

  async close(): Promise<void> {
    for (const device of this.#devices) await device.leave();
    for (const bridge of this.#bridges) await bridge.kill('SIGKILL');
    await this.worker.stop();
    await this.broker.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
