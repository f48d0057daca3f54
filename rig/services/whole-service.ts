// The whole service as processes of their own, on free ports: the built Worker, the local broker, which asks the Worker
// about every login, and the production bridge. For suites that know nothing but its addresses. Asserts nothing.
import type { ChildProcess } from 'node:child_process';
import { bridgePassword, type BridgeProcess, bridgeSecret } from './bridge-process.ts';
import { gatewaySecret } from './gateway-process.ts';
import { killGroup } from '../worker/built-worker.ts';
import { brokerPart } from './parts.ts';
import { findFreePort } from '../ports.ts';
import { hookSecret, jwtSecrets, messagingSecret, WorkerRig, type WorkerRigOptions } from '../worker/worker-rig.ts';

const brokerApi = { BROKER_API_KEY: 'whole-service', BROKER_API_SECRET: 'secret-of-the-broker-api' };

export class WholeService {
  readonly rig: WorkerRig;
  readonly broker: ChildProcess;
  readonly bridge: BridgeProcess;
  readonly #brokerOutput: () => string;

  private constructor(rig: WorkerRig, broker: ChildProcess, bridge: BridgeProcess, brokerOutput: () => string) {
    this.rig = rig;
    this.broker = broker;
    this.bridge = bridge;
    this.#brokerOutput = brokerOutput;
  }

  /** @param vars of the Worker, @param environment of the bridge, on top of what connects the parts */
  static async start(
    vars: Record<string, string>,
    environment: Record<string, string> = {},
    { frontModule }: Pick<WorkerRigOptions, 'frontModule'> = {},
  ): Promise<WholeService> {
    const brokerAdmin = await findFreePort();
    const rig = await WorkerRig.start({
      vars: {
        ...brokerApi,
        BROKER_REPORTS_CONNECTIONS: 'true',
        BROKER_API_URL: `http://127.0.0.1:${brokerAdmin}`,
        ...vars,
      },
      frontModule,
    });
    const broker = brokerPart({
      stateDir: rig.stateDir,
      bindHost: '127.0.0.1',
      shownHost: '127.0.0.1',
      hasBroker: true,
      ports: { api: rig.port, mqtt: rig.mqttPort, ws: await findFreePort(), brokerAdmin, health: 0 },
      secrets: {
        ...brokerApi,
        JWT_SECRETS: jwtSecrets,
        BRIDGE_SECRETS: bridgeSecret,
        BRIDGE_MQTT_PASSWORDS: bridgePassword,
        SEALING_SECRETS: 'sealing-secret-of-the-whole-service',
        MESSAGING_SECRETS: messagingSecret,
        BROKER_HOOK_SECRETS: hookSecret,
        GATEWAY_SECRETS: gatewaySecret,
        OPERATOR_SECRETS: 'an-operator-secret-of-at-least-32-characters',
      },
    }).spawn();
    let output = '';
    for (const stream of [broker.stdout, broker.stderr]) {
      stream?.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4_000)));
    }
    const bridge = rig.startBridge({ environment: { MQTT_PROTOCOL: '3.1.1', LOG_LEVEL: 'info', ...environment } });
    const service = new WholeService(rig, broker, bridge, () => output);
    try {
      await rig.untilHealthy();
    } catch (error) {
      await service.stop();
      throw new Error(`The service did not start. Its broker printed:\n${service.#brokerOutput()}`, { cause: error });
    }
    return service;
  }

  async stop(): Promise<void> {
    if (this.broker.pid !== undefined) killGroup(this.broker.pid);
    await this.rig.stop();
  }
}
