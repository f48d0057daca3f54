// The whole service as processes of their own, on free ports: the built Worker and the entry for devices. The entry is the
// local broker with the production bridge, or the gateway. For suites that know nothing but its addresses. Asserts nothing.
import { findFreePort } from '../ports.ts';
import { hookSecret, WorkerRig, type WorkerRigOptions } from '../worker/worker-rig.ts';
import { type BridgeProcess, GatewayProcess, LocalBroker, type ServiceProcess } from './processes.ts';

const brokerApi = { BROKER_API_KEY: 'whole-service', BROKER_API_SECRET: 'secret-of-the-broker-api' };

export class WholeService<Entry extends ServiceProcess = LocalBroker> {
  readonly rig: WorkerRig;
  readonly bridge: BridgeProcess | undefined;
  /** What devices connect to: broker or gateway. */
  entry: Entry;
  readonly #startEntry: () => Promise<Entry>;

  private constructor(rig: WorkerRig, entry: Entry, startEntry: () => Promise<Entry>, bridge?: BridgeProcess) {
    this.rig = rig;
    this.entry = entry;
    this.bridge = bridge;
    this.#startEntry = startEntry;
  }

  /** @param vars of the Worker, @param environment of the bridge, on top of what connects the parts */
  static async start(
    vars: Record<string, string> = {},
    environment: Record<string, string> = {},
    { frontModule }: Pick<WorkerRigOptions, 'frontModule'> = {},
  ): Promise<WholeService> {
    const adminPort = String(await findFreePort());
    const api = { ...brokerApi, BROKER_API_URL: `http://127.0.0.1:${adminPort}`, BROKER_REPORTS_CONNECTIONS: 'true' };
    const rig = await WorkerRig.start({ vars: { ...api, ...vars }, frontModule });
    const ports = { MQTT_PORT: String(rig.mqttPort), BROKER_ADMIN_PORT: adminPort };
    const startBroker = () =>
      LocalBroker.start({ workerUrl: rig.url, hookSecret, environment: { ...brokerApi, ...ports } });
    const broker = await startBroker();
    const bridge = rig.startBridge({ environment: { MQTT_PROTOCOL: '3.1.1', LOG_LEVEL: 'info', ...environment } });
    return new WholeService(rig, broker, startBroker, bridge).#untilHealthy();
  }

  /** @param vars of the Worker, @param environment of the gateway, on top of what connects the parts */
  static async startWithGateway(
    vars: Record<string, string> = {},
    environment: Record<string, string> = {},
  ): Promise<WholeService<GatewayProcess>> {
    const rig = await WorkerRig.start({ vars: { BROKER: 'none', ...vars } });
    const startGateway = () => GatewayProcess.start(rig.url, { MQTT_PORT: String(rig.mqttPort), ...environment });
    return new WholeService(rig, await startGateway(), startGateway).#untilHealthy();
  }

  /** Where devices connect over WebSocket without a path; one of their own is theirs alone. */
  get directUrl(): string {
    return `${this.rig.url.replace(/^http/, 'ws')}/mqtt`;
  }

  /** Starts another process at the same ports, after the first was killed. */
  async restartEntry(): Promise<void> {
    this.entry = await this.#startEntry();
  }

  async stop(): Promise<void> {
    await this.entry.kill('SIGKILL');
    await this.rig.stop();
  }

  async #untilHealthy(): Promise<this> {
    try {
      await this.rig.untilHealthy();
      return this;
    } catch (error) {
      await this.stop();
      throw new Error(`The service did not start. Of its entry, ${this.entry.lastWords}`, { cause: error });
    }
  }
}
