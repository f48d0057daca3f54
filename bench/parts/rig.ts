// What every benchmark needs, started once: mosquitto, the built Worker in workerd, a user with devices. Everything on
// loopback, everything stopped at the end. It measures nothing.
import { type BridgeProcess, type ServiceProcess } from '../../rig/services/processes.ts';
import type { Activation } from '../../rig/clients/accounts.ts';
import { Mosquitto, mosquittoSettings } from '../../rig/brokers/mosquitto.ts';
import { RelayClient } from '../../rig/clients/relay-client.ts';
import type { Neighbour } from '../../rig/worker/worker-process.ts';
import { WorkerRig, workerVars } from '../../rig/worker/worker-rig.ts';

/** Fewer than the 200 that a socket may have: an application opens a second socket before that. */
const topicsPerSocket = 100;

/** One device sends what thousands would. */
const directLimits = ['directPacketsPerSecond=1000000'];

/**
 * No round has the scheduled job. With it workerd closed all connections a few times, as it does if nobody reads its log for 5 s.
 * A thousand runs of the job under load did not show it again, nor did reports of some minutes with a run a second.
 */
const unscheduled = { SCHEDULE_SECONDS: '86400' };

export const benchSettings = [
  `mosquitto: ${mosquittoSettings.join(', ')}`,
  `Worker: the built bundle in workerd, ${Object.entries(workerVars)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')}`,
  'bridge: as in production, MQTT 5, its spool flushed to the disk before each acknowledgement',
  'devices are activated over HTTP; their logins are not checked by the broker',
];

export type BenchRigOptions = {
  deviceCount: number;
  /** Beside those of every benchmark. */
  limits?: string[];
  vars?: Record<string, string>;
  neighbours?: Neighbour[];
  brokerConfig?: string;
};

export class BenchRig {
  readonly broker: Mosquitto;
  readonly worker: WorkerRig;
  readonly devices: Activation[];

  private constructor(broker: Mosquitto, worker: WorkerRig, devices: Activation[]) {
    this.broker = broker;
    this.worker = worker;
    this.devices = devices;
  }

  static async start(options: BenchRigOptions): Promise<BenchRig> {
    const { limits = [], neighbours = [], vars, brokerConfig } = options;
    const broker = await Mosquitto.start(brokerConfig);
    try {
      const worker = await WorkerRig.start({
        mqttPort: broker.port,
        vars: {
          LIMITS: [workerVars.LIMITS, ...directLimits, ...limits].join(),
          ...unscheduled,
          ...vars,
        },
        neighbours,
        onWorkerLine: (line) => showTrouble('Worker', line),
      });
      return new BenchRig(broker, worker, await worker.activateMany(options.deviceCount));
    } catch (error) {
      await broker.stop();
      throw error;
    }
  }

  /** One at a time, connected to the Worker itself unless told otherwise. */
  async startBridge(workerUrl = this.worker.url): Promise<BridgeProcess> {
    const environment = { BRIDGE_ID: 'bench', LOG_LEVEL: 'info' };
    const bridge = this.worker.startBridge({ workerUrl, environment });
    showTroubleOf('bridge', bridge);
    await bridge.untilReady();
    return bridge;
  }

  /** An application's end of the relay: resolves when every subscription is active; `onText` is given each push. */
  async follow(topics: readonly string[], onText: (text: string) => void): Promise<{ stop: () => Promise<void> }> {
    const clients: RelayClient[] = [];
    for (let at = 0; at < topics.length; at += topicsPerSocket) {
      const socket = { perMessageDeflate: false };
      const client = await RelayClient.open(this.worker.url, { socket, onPushText: onText });
      await client.follow({ token: this.worker.owner.token }, topics.slice(at, at + topicsPerSocket));
      clients.push(client);
    }
    return {
      stop: async () => {
        for (const client of clients) client.close();
        await Promise.all(clients.map((client) => client.untilClosed()));
      },
    };
  }

  async stop(): Promise<void> {
    await this.worker.stop();
    await this.broker.stop();
  }
}

export function showTroubleOf(part: string, { child }: Pick<ServiceProcess, 'child'>): void {
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      for (const line of chunk.toString().trimEnd().split('\n')) showTrouble(part, line);
    });
  }
}

/** A warning explains a figure, so it is shown with the figures. */
export function showTrouble(part: string, line: string): void {
  if (line.includes('"level":"info"') || line.includes('"level":"debug"')) return;
  console.log(`  ${part}: ${line}`);
}
