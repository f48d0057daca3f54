// The built Worker and the production bridge as processes of their own around a broker, with a user who has a product
// and devices that are plain MQTT clients. For tests that prove a broker; knows none itself.
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt, { type IClientOptions, type MqttClient } from 'mqtt';
import { WebSocket } from 'ws';
import { buildWorker, startBuiltWorker, workerDirs, type BuiltWorker } from '../../dev/built-worker.ts';
import { Changes } from './changes.ts';
import { BridgeProcess } from './bridge-process.ts';
import { findFreePort } from './ports.ts';

export const hookSecret = 'hook-secret-of-the-real-broker-tests';
export const bridgeSecret = 'bridge-secret-of-the-real-broker-tests';
export const bridgeName = 'latchwork-bridge';

export type Activation = {
  deviceId: string;
  deviceSecret: string;
  mqtt: { username: string; password: string; clientId: string };
  topics: { propertyPost: string; propertySet: string; status: string };
};
export type ProtocolVersion = 4 | 5;
export type Answer = { code: number; message: string; data: Record<string, unknown> };

let bundleDir: string | undefined;

/** Builds the Worker once for all stacks of a test file, which calls `removeBundle` at its end. */
async function buildOnce(): Promise<string> {
  if (bundleDir === undefined) {
    const dir = mkdtempSync(join(tmpdir(), 'latchwork-real-broker-bundle-'));
    await buildWorker(dir);
    bundleDir = dir;
  }
  return bundleDir;
}

export function removeBundle(): void {
  if (bundleDir !== undefined) rmSync(bundleDir, { recursive: true, force: true });
  bundleDir = undefined;
}

export class RealStack {
  readonly mqttPort: number;
  readonly #stateDir: string;
  readonly #worker: BuiltWorker;
  #bridge: BridgeProcess | undefined;
  #token = '';

  private constructor(mqttPort: number, stateDir: string, worker: BuiltWorker) {
    this.mqttPort = mqttPort;
    this.#stateDir = stateDir;
    this.#worker = worker;
  }

  /** A Worker that hands out `mqttPort`; the broker is started on it afterwards, because it may need the Worker. */
  static async start(vars: Record<string, string>): Promise<RealStack> {
    const stateDir = mkdtempSync(join(tmpdir(), 'latchwork-real-broker-'));
    symlinkSync(await buildOnce(), workerDirs(stateDir).buildDir);
    const mqttPort = await findFreePort();
    const worker = await startBuiltWorker({
      stateDir,
      isBuilt: true,
      vars: { MQTT_HOST: '127.0.0.1', MQTT_PORT: String(mqttPort), RATE_LIMITS: 'relaxed', ...vars },
      secrets: {
        JWT_SECRETS: 'test:access-token-secret-of-the-real-broker-tests',
        BRIDGE_SECRETS: bridgeSecret,
        BROKER_HOOK_SECRETS: hookSecret,
      },
    });
    const stack = new RealStack(mqttPort, stateDir, worker);
    await stack.#createOwner();
    return stack;
  }

  get workerUrl(): string {
    return this.#worker.url;
  }

  get brokerUrl(): string {
    return `mqtt://127.0.0.1:${this.mqttPort}`;
  }

  /** Resolves when the service says that API, database, bridge and broker are all connected. */
  async startBridge(protocol: 'auto' | '5' | '3.1.1' = 'auto'): Promise<void> {
    this.#bridge = new BridgeProcess({
      WORKER_URL: this.workerUrl,
      BRIDGE_SECRET: bridgeSecret,
      BRIDGE_ID: 'bridge-1',
      MQTT_URL: this.brokerUrl,
      MQTT_CLIENT_ID: bridgeName,
      MQTT_USERNAME: bridgeName,
      MQTT_PASSWORD: bridgeSecret,
      MQTT_PROTOCOL: protocol,
      SPOOL_DIR: join(this.#stateDir, `spool-${protocol}`),
    });
    let last = '';
    await eventually(
      async () => {
        const response = await fetch(`${this.workerUrl}/health`);
        last = `${response.status} ${await response.text()}`;
        return response.ok;
      },
      () => `the service is not healthy: ${last}\n${JSON.stringify(this.#bridge?.lines.slice(-5))}`,
    );
  }

  async stopBridge(): Promise<void> {
    await this.#bridge?.kill('SIGTERM');
    this.#bridge = undefined;
  }

  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(`${this.workerUrl}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.#token}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  async activate(deviceSN: string): Promise<Activation> {
    const { code, data } = await this.call('POST', '/devices/activate', { productKey: 'real-switch', deviceSN });
    if (code !== 200) throw new Error(`activation answered ${code}`);
    return data as Activation;
  }

  /** The status view, once it fits. */
  async untilStatus(deviceId: string, fits: (status: Record<string, unknown>) => boolean): Promise<void> {
    let last: unknown;
    await eventually(
      async () => {
        const { data } = await this.call('GET', `/devices/${deviceId}/status`);
        last = data;
        return fits(data);
      },
      () => `the status view is ${JSON.stringify(last)}`,
    );
  }

  /** A relay client of the user, subscribed to all that devices say and are told. */
  async watch(...devices: Activation[]): Promise<RelayWatch> {
    const watch = new RelayWatch(`${this.workerUrl.replace('http', 'ws')}/mqtt`);
    await watch.ask({ action: 'auth', token: this.#token });
    for (const { topics } of devices) {
      await watch.ask({ action: 'subscribe', topic: topics.status.replace(/status$/, '#') });
    }
    return watch;
  }

  async stop(): Promise<void> {
    await this.stopBridge();
    await this.#worker.stop();
    rmSync(this.#stateDir, { recursive: true, force: true });
  }

  async #createOwner(): Promise<void> {
    const credentials = { username: 'owner@example.test', email: 'owner@example.test', password: 'correct horse' };
    await this.call('POST', '/users/register', credentials);
    const { data } = await this.call('POST', '/users/login', credentials);
    this.#token = String(data['token']);
    await this.call('POST', '/products', { productKey: 'real-switch', name: 'Switch', controlMode: 'toggle' });
  }
}

export class RelayWatch {
  readonly pushed: { topic: string; payload: unknown }[] = [];
  readonly #changes = new Changes();
  readonly #socket: WebSocket;
  readonly #replies: Record<string, unknown>[] = [];

  constructor(url: string) {
    this.#socket = new WebSocket(url);
    this.#socket.on('message', (data) => {
      const frame = JSON.parse((data as Buffer).toString()) as Record<string, unknown>;
      if ('payload' in frame) this.pushed.push(frame as { topic: string; payload: unknown });
      else this.#replies.push(frame);
      this.#changes.note();
    });
  }

  async ask(frame: Record<string, unknown>): Promise<void> {
    await this.#changes.until('the relay is open', () => this.#socket.readyState === WebSocket.OPEN);
    this.#socket.send(JSON.stringify(frame));
    await this.#changes.until(`an answer to ${String(frame['action'])}`, () => this.#replies.length > 0);
    const reply = this.#replies.shift();
    if (reply?.['code'] !== 200) throw new Error(`the relay answered ${JSON.stringify(reply)}`);
  }

  async untilPushed(topic: string, fits: (payload: unknown) => boolean = () => true): Promise<unknown> {
    const find = () => this.pushed.find((push) => push.topic === topic && fits(push.payload));
    const heard = () => `a push of ${topic}; heard: ${JSON.stringify(this.pushed)}`;
    await this.#changes.until(heard, () => find() !== undefined);
    return find()?.payload;
  }

  close(): void {
    this.#socket.terminate();
  }
}

/** An MQTT client that does not come back by itself. */
export class RealClient {
  readonly heard: { topic: string; payload: unknown }[] = [];
  readonly #changes = new Changes();
  readonly client: MqttClient;
  isClosed = false;

  private constructor(client: MqttClient) {
    this.client = client;
    client.on('message', (topic, payload) => {
      this.heard.push({ topic, payload: JSON.parse(payload.toString()) });
      this.#changes.note();
    });
    client.on('close', () => {
      this.isClosed = true;
      this.#changes.note();
    });
    client.on('error', () => undefined);
  }

  static async connect(url: string, options: IClientOptions): Promise<RealClient> {
    return new RealClient(await mqtt.connectAsync(url, { reconnectPeriod: 0, clean: true, ...options }, false));
  }

  static async ofDevice(url: string, { mqtt: login }: Activation, protocolVersion: ProtocolVersion) {
    const { username, password, clientId } = login;
    return RealClient.connect(url, { username, password, clientId, protocolVersion });
  }

  async untilHeard(topic: string): Promise<unknown> {
    const find = () => this.heard.find((message) => message.topic === topic);
    await this.#changes.until(`a message on ${topic}`, () => find() !== undefined);
    return find()?.payload;
  }

  async untilClosed(): Promise<void> {
    await this.#changes.until('the broker closes the connection', () => this.isClosed);
  }

  /** Publishes, and does not mind a broker that answers by closing the connection, or not at all. */
  async tryPublish(topic: string, body: unknown): Promise<void> {
    const done = this.client.publishAsync(topic, JSON.stringify(body), { qos: 1 }).catch(() => undefined);
    await Promise.race([done, this.untilClosed()]);
  }

  /** Whether the broker grants the filter; one that closes the connection instead does not. */
  async trySubscribe(filter: string): Promise<boolean> {
    const asked = this.client.subscribeAsync(filter, { qos: 1 }).then(
      (granted) => granted.every(({ qos }) => qos < 128),
      () => false,
    );
    return Promise.race([asked, this.untilClosed().then(() => false)]);
  }

  async leave(): Promise<void> {
    await this.client.endAsync(true);
  }
}

/** Why a login was refused: the CONNACK's code, or that there was none. */
export async function refusalOf(url: string, options: IClientOptions): Promise<string> {
  try {
    const client = await RealClient.connect(url, { connectTimeout: 5_000, ...options });
    await client.leave();
    return 'accepted';
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    return typeof code === 'number' ? `code ${code}` : (error as Error).message;
  }
}

async function eventually(isSo: () => Promise<boolean>, describe: () => string, timeoutMs = 20_000): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs;
  while (!(await isSo())) {
    if (Date.now() > deadlineMs) throw new Error(`not within ${timeoutMs} ms: ${describe()}`);
    await sleep(50);
  }
}
