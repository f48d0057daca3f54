// The whole service as processes of their own, on free ports: the built Worker, the local broker, which asks the Worker
// about every login, and the production bridge. For suites that know nothing but its addresses. Asserts nothing.
import { findFreePort } from '../ports.ts';
import { hookSecret, WorkerRig, type WorkerRigOptions } from '../worker/worker-rig.ts';
import { type BridgeProcess, LocalBroker } from './processes.ts';

const brokerApi = { BROKER_API_KEY: 'whole-service', BROKER_API_SECRET: 'secret-of-the-broker-api' };

export class WholeService {
  readonly rig: WorkerRig;
  readonly broker: LocalBroker;
  readonly bridge: BridgeProcess;

  private constructor(rig: WorkerRig, broker: LocalBroker, bridge: BridgeProcess) {
    this.rig = rig;
    this.broker = broker;
    this.bridge = bridge;
  }

  /** @param vars of the Worker, @param environment of the bridge, on top of what connects the parts */
  static async start(
    vars: Record<string, string>,
    environment: Record<string, string> = {},
    { frontModule }: Pick<WorkerRigOptions, 'frontModule'> = {},
  ): Promise<WholeService> {
    const adminPort = String(await findFreePort());
    const api = { ...brokerApi, BROKER_API_URL: `http://127.0.0.1:${adminPort}`, BROKER_REPORTS_CONNECTIONS: 'true' };
    const rig = await WorkerRig.start({ vars: { ...api, ...vars }, frontModule });
    const broker = await LocalBroker.start({
      workerUrl: rig.url,
      hookSecret,
      environment: { ...brokerApi, MQTT_PORT: String(rig.mqttPort), BROKER_ADMIN_PORT: adminPort },
    });
    const bridge = rig.startBridge({ environment: { MQTT_PROTOCOL: '3.1.1', LOG_LEVEL: 'info', ...environment } });
    const service = new WholeService(rig, broker, bridge);
    try {
      await rig.untilHealthy();
    } catch (error) {
      await service.stop();
      throw new Error(`The service did not start. Of its broker, ${broker.lastWords}`, { cause: error });
    }
    return service;
  }

  async stop(): Promise<void> {
    await this.broker.kill('SIGKILL');
    await this.rig.stop();
  }
}
