// The built Worker as a process that can be frozen, killed and started again at the same address. It has an owner, a
// product and devices, and bridges to any broker. Knows no broker and no test.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { activate, activateMany, addProduct, signUp, type Activation, type Session } from '../clients/accounts.ts';
import { askHealth, connectApi, dataOf } from '../clients/api.ts';
import {
  bridgeEnvironment,
  bridgeName,
  bridgePassword,
  BridgeProcess,
  bridgeSecret,
  unlimitedDevices,
  gatewaySecret,
} from '../services/processes.ts';
import { uplinkAnswerSchema, uplinkPath } from '../../src/protocol/bridge.ts';
import { killGroup, startBuiltWorker, type BuiltWorker } from './built-worker.ts';
import { eventually } from '../changes.ts';
import { findFreePort } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';
import type { Neighbour, WorkerOptions } from './worker-process.ts';
import { RelayClient } from '../clients/relay-client.ts';

export const operatorSecret = 'operator-secret-of-the-rig-for-tests-only';
export const hookSecret = 'broker-hook-secret-of-the-rig-for-tests';
const messagingSecret = 'messaging-secret-of-the-rig-for-tests';
export const jwtSecrets = 'rig:access-token-secret-of-the-rig-for-tests';

const patienceMs = 180_000;

/** Vars of the Worker unless `start` is given others. */
export const workerVars = {
  RATE_LIMITS: 'relaxed',
  // Without hooks on connect and disconnect the service watches for inactivity, as it would in production.
  BROKER_REPORTS_CONNECTIONS: 'false',
  // A few devices send what would be the messages of thousands.
  LIMITS: 'deviceMessagesPerMinute=10000000',
  WEBHOOKS_MAY_BE_LOCAL: 'true',
  LOG_INFO_SHARE: '1',
};

export type WorkerRigOptions = {
  vars?: Record<string, string>;
  onWorkerLine?: (line: string) => void;
  neighbours?: Neighbour[];
} & Pick<WorkerOptions, 'frontModule' | 'hostsFile'>;
export type BridgeOptions = {
  workerUrl?: string;
  mqttUrl?: string;
  spoolDir?: string;
  environment?: Record<string, string>;
};

export class WorkerRig {
  readonly stateDir = makeTempDir('rig');
  readonly port: number;
  /** Given to devices at activation. The caller starts a broker there, later, because that may need the Worker. */
  readonly mqttPort: number;
  readonly #startWorker: () => Promise<BuiltWorker>;
  readonly #bindings: Record<string, string>;
  readonly #bridges: BridgeProcess[] = [];
  #worker: BuiltWorker | undefined;
  #owner: Session | undefined;
  #isFrozen = false;
  #activated = 0;
  #sent = 0;
  productKey = '';

  private constructor(port: number, mqttPort: number, options: WorkerRigOptions) {
    const { vars, onWorkerLine, neighbours = [], ...places } = options;
    this.port = port;
    this.mqttPort = mqttPort;
    this.#bindings = {
      MQTT_HOST: '127.0.0.1',
      MQTT_PORT: String(mqttPort),
      ...workerVars,
      ...vars,
      JWT_SECRETS: jwtSecrets,
      BRIDGE_SECRETS: bridgeSecret,
      BRIDGE_MQTT_PASSWORDS: bridgePassword,
      SEALING_SECRETS: 'sealing-secret-of-the-rig-for-tests-only',
      MESSAGING_SECRETS: messagingSecret,
      BROKER_HOOK_SECRETS: hookSecret,
      GATEWAY_SECRETS: gatewaySecret,
      OPERATOR_SECRETS: operatorSecret,
    };
    const onLine = onWorkerLine === undefined ? {} : { onLine: onWorkerLine };
    this.#startWorker = () =>
      startBuiltWorker({ stateDir: this.stateDir, port, bindings: this.#bindings, neighbours, ...places, ...onLine });
    // A stopped process does not notice that its parent is gone.
    process.once('exit', () => this.thawWorker());
  }

  static async start(options: WorkerRigOptions & { mqttPort?: number } = {}): Promise<WorkerRig> {
    const rig = new WorkerRig(await findFreePort(), options.mqttPort ?? (await findFreePort()), options);
    rig.#worker = await rig.#startWorker();
    rig.#owner = await signUp((credentials) => connectApi(rig.url, credentials));
    rig.productKey = await addProduct(rig.#owner);
    return rig;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get mqttUrl(): string {
    return `mqtt://127.0.0.1:${this.mqttPort}`;
  }

  /** Also the id of the Worker's process group. */
  get pid(): number {
    return this.#worker?.pid ?? 0;
  }

  get owner(): Session {
    if (this.#owner === undefined) throw new Error('the rig was not started');
    return this.#owner;
  }

  activate(deviceSN: string): Promise<Activation> {
    return activate(this.owner.api, this.productKey, deviceSN);
  }

  /** New devices. */
  activateMany(count: number): Promise<Activation[]> {
    const serials = Array.from({ length: count }, () => `RIG-${++this.#activated}`);
    return activateMany(this.owner.api, this.productKey, serials);
  }

  /** Sends messages as one batch of a bridge. @throws Error unless the Worker accepts all of them */
  async sendBatch(messages: { topic: string; payload: string }[]): Promise<void> {
    const sentAtMs = Date.now();
    const items = messages.map((message) => ({ ...message, seq: ++this.#sent, receivedAtMs: sentAtMs }));
    const response = await fetch(`${this.url}${uplinkPath}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${bridgeSecret}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ spoolId: 'rig', sentAtMs, items }),
    });
    const { results } = uplinkAnswerSchema.parse(await response.json()).data;
    const accepted = results.filter(({ result }) => result === 'accepted');
    if (accepted.length !== items.length) throw new Error(`the Worker answers ${JSON.stringify(results)}`);
  }

  /** Between the broker and the Worker unless `options` say otherwise. */
  startBridge(options: BridgeOptions = {}): BridgeProcess {
    const { workerUrl = this.url, mqttUrl = this.mqttUrl, spoolDir = join(this.stateDir, 'spool') } = options;
    const login = { MQTT_USERNAME: bridgeName, MQTT_PASSWORD: bridgePassword };
    const environment = {
      ...bridgeEnvironment({ workerUrl, mqttUrl, spoolDir }),
      ...unlimitedDevices,
      ...login,
      ...options.environment,
    };
    const bridge = new BridgeProcess(environment);
    this.#bridges.push(bridge);
    return bridge;
  }

  /** Resolves when API, database, bridge and broker are all connected. */
  async untilHealthy(): Promise<void> {
    let missing: string | undefined;
    const describe = () => `a healthy service: ${missing} ${JSON.stringify(this.#bridges.at(-1)?.lines.slice(-5))}`;
    await eventually(describe, async () => {
      missing = await askHealth(this.url, bridgeSecret);
      // The limits of production count these requests, too.
      if (missing !== undefined) await sleep(250);
      return missing === undefined;
    });
  }

  /** The status view, once it fits. */
  async untilStatus(deviceId: string, fits: (status: { online: boolean; position?: unknown }) => boolean) {
    let last: unknown;
    await eventually(
      () => `the status view is ${JSON.stringify(last)}`,
      async () => {
        const status = await dataOf(this.owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));
        last = status;
        return fits(status);
      },
    );
  }

  /** A relay client of the owner, subscribed to all topics of the devices. */
  async watch(...devices: Activation[]): Promise<RelayClient> {
    const client = await RelayClient.open(this.url);
    const filters = devices.map(({ topics }) => topics.status.replace(/status$/, '#'));
    await client.follow({ token: this.owner.token }, filters);
    return client;
  }

  /** `kill` is what a crash is; `leave` closes in order. The data of both is on the disk. */
  async restartWorker(how: 'kill' | 'leave', whileStopped: () => unknown = () => undefined): Promise<void> {
    if (how === 'kill') killGroup(this.pid);
    await this.#worker?.stop();
    await whileStopped();
    this.#worker = await this.#startWorker();
    const isThere = () =>
      fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) }).then(
        () => true,
        () => false,
      );
    await eventually('an answer of the Worker after its restart', isThere, patienceMs);
  }

  /** The system still accepts connections to it; nothing answers. */
  freezeWorker(): void {
    this.#isFrozen = true;
    process.kill(-this.pid, 'SIGSTOP');
  }

  thawWorker(): void {
    if (!this.#isFrozen) return;
    this.#isFrozen = false;
    process.kill(-this.pid, 'SIGCONT');
  }

  async stop(): Promise<void> {
    this.thawWorker();
    for (const bridge of this.#bridges) await bridge.kill('SIGKILL');
    await this.#worker?.stop();
  }
}
