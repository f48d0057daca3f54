// Everything around one bridge for a test: a real broker, the Worker's side, devices, and one close() for all of it.
import { bridgeEnvironment, BridgeProcess, makeSpoolDir } from './bridge-process.ts';
import { Device } from './mqtt-device.ts';
import { WorkerSide } from './worker-side.ts';

type Broker = { url: string; stop: () => Promise<unknown> };

export class Scene<B extends Broker> {
  broker: B;
  readonly worker: WorkerSide;
  readonly spoolDir = makeSpoolDir();
  readonly #environment: Record<string, string>;
  readonly #bridges: BridgeProcess[] = [];
  readonly #devices: Device[] = [];

  private constructor(broker: B, worker: WorkerSide, environment: Record<string, string>) {
    this.broker = broker;
    this.worker = worker;
    this.#environment = environment;
  }

  /** Broker and Worker side stand; bridges and devices are started by the test. */
  static async start<B extends Broker>(broker: B, environment: Record<string, string> = {}): Promise<Scene<B>> {
    return new Scene(broker, await WorkerSide.start(), environment);
  }

  startBridge(environment: Record<string, string> = {}): BridgeProcess {
    const bridge = new BridgeProcess({
      ...bridgeEnvironment({ workerUrl: this.worker.url, mqttUrl: this.broker.url, spoolDir: this.spoolDir }),
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
}
