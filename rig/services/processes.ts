// Bridge, gateway and local broker as child processes, started as an operator would: environment in, logs out, signals. What they
// do is seen from outside; nothing here reaches into them.
import { spawn, type ChildProcess } from 'node:child_process';
import type { EventEmitter } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Changes } from '../changes.ts';
import { findFreePort } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readyWithinMs = 120_000;

export const bridgeSecret = 'a-bridge-secret-of-at-least-32-characters';
export const bridgePassword = 'an-mqtt-password-of-at-least-32-characters';
/** MQTT user name, and client id if a test gives it one. */
export const bridgeName = 'latchwork-bridge';
export const gatewaySecret = 'a-gateway-secret-of-at-least-32-characters';
/** For tests and benchmarks whose devices send as fast as they can. */
export const unlimitedDevices = { DEVICE_MESSAGES_PER_SECOND: '1000000' };

const scripts = {
  bridge: 'broker-bridge/src/main.ts',
  gateway: 'mqtt-gateway/src/main.ts',
  matter: 'matter-bridge/src/main.ts',
  broker: 'dev/broker/broker.ts',
  front: 'serve/front.ts',
} as const;

type LogLine = { level: string; message: string } & Record<string, unknown>;
type SpawnOptions = { env: NodeJS.ProcessEnv; detached?: boolean };

/** With nothing of the surrounding environment but PATH: what a test does not set must not matter. */
export function spawnService(service: keyof typeof scripts, { env, detached = false }: SpawnOptions): ChildProcess {
  // node:sqlite announces itself as experimental on every start.
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', scripts[service]], {
    cwd: root,
    detached,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
}

/** A child process whose output and end can be awaited. */
export class AwaitedProcess {
  readonly changes = new Changes();
  readonly child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(child: ChildProcess) {
    this.child = child;
    const untilEvent = (part: EventEmitter | null, event: string) =>
      new Promise<void>((resolve) => (part === null ? resolve() : part.once(event, () => resolve())));
    // Its 'close' does not come after a disconnect by this side.
    const ends = [child.stdout, child.stderr].map((stream) => untilEvent(stream, 'close'));
    this.#ended = Promise.all([untilEvent(child, 'exit'), ...ends]);
    child.on('exit', () => this.changes.note());
  }

  protected collect(stream: 'stdout' | 'stderr', take: (text: string) => void): void {
    this.child[stream]?.on('data', (chunk: Buffer) => {
      take(chunk.toString());
      this.changes.note();
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Resolves with the exit code, null if a signal ended it, when all of its output is read, too. */
  async untilExit(): Promise<number | null> {
    await this.#ended;
    return this.child.exitCode;
  }

  async kill(signal: NodeJS.Signals): Promise<number | null> {
    if (!this.hasExited) this.child.kill(signal);
    return this.untilExit();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill('SIGTERM');
  }
}

export class ServiceProcess extends AwaitedProcess {
  readonly lines: LogLine[] = [];
  /** The messages that it sent to its parent. */
  readonly states: Record<string, unknown>[] = [];
  readonly healthPort: number;
  stderr = '';

  constructor(service: keyof typeof scripts, options: SpawnOptions) {
    super(spawnService(service, options));
    this.healthPort = Number(options.env['HEALTH_PORT']);
    let rest = '';
    this.collect('stdout', (text) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.startsWith('{')) this.lines.push(JSON.parse(line) as LogLine);
    });
    this.collect('stderr', (text) => (this.stderr += text));
    this.child.on('message', (message) => {
      this.states.push(message as Record<string, unknown>);
      this.changes.note();
    });
  }

  /** Resolves when it has told its parent something, or ended before that. */
  async untilTold(): Promise<void> {
    await this.until('a first message', () => this.states.length > 0 || this.hasExited);
  }

  async untilLogged(message: string): Promise<LogLine> {
    const find = (): LogLine | undefined => this.lines.find((line) => line.message === message);
    await this.changes.until(`the log line "${message}"`, () => find() !== undefined);
    return find()!;
  }

  /** Needs a HEALTH_PORT. */
  async ask(path: string): Promise<{ status: number; text: string }> {
    const answer = await fetch(`http://127.0.0.1:${this.healthPort}${path}`);
    return { status: answer.status, text: await answer.text() };
  }

  /** The sum over all labels. */
  async metric(name: string): Promise<number> {
    const { text } = await this.ask('/metrics');
    const lines = text.split('\n').filter((line) => new RegExp(`^${name}[ {]`).test(line));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  get lastWords(): string {
    return `its last lines are ${JSON.stringify(this.lines.slice(-6))} ${this.stderr}`;
  }

  protected async until(what: string, isSo: () => boolean): Promise<void> {
    await this.changes.until(() => `${what}; ${this.lastWords}`, isSo, readyWithinMs);
  }
}

export class BridgeProcess extends ServiceProcess {
  constructor(environment: Record<string, string>) {
    super('bridge', { env: { LOG_LEVEL: 'debug', ...environment } });
  }

  get isBrokerConnected(): boolean {
    return this.states.at(-1)?.['broker'] === 'connected';
  }

  /** The broker queues for the bridge from its first subscription on, and only from then. */
  async untilBrokerConnected(): Promise<void> {
    await this.until('a bridge connected to the broker', () => this.isBrokerConnected);
  }

  /** Resolves when it is the active bridge and connected to broker and Worker. */
  async untilReady(): Promise<void> {
    await this.until('an active bridge that is connected to broker and Worker', () => {
      const state = this.states.at(-1);
      return this.isBrokerConnected && state?.['link'] === 'connected' && state['role'] === 'active';
    });
  }
}

export function bridgeEnvironment(options: {
  workerUrl: string;
  mqttUrl: string;
  spoolDir: string;
}): Record<string, string> {
  return {
    WORKER_URL: options.workerUrl,
    BRIDGE_SECRET: bridgeSecret,
    BRIDGE_ID: 'bridge-1',
    MQTT_URL: options.mqttUrl,
    MQTT_CLIENT_ID: bridgeName,
    SPOOL_DIR: options.spoolDir,
  };
}

export function makeSpoolDir(): string {
  return makeTempDir('spool');
}

type DeadLetter = { reason: string; item: { topic: string; payload: string; payloadBytes?: number } };

/** What a bridge has put aside into its spool folder, oldest first. */
export function readDeadLetters(spoolDir: string): DeadLetter[] {
  const path = join(spoolDir, 'dead-letters.jsonl');
  if (!existsSync(path)) return [];
  // The last line may not be whole yet.
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as DeadLetter);
}

/** The broker of `npm start`, beside a Worker that decides its logins; on free ports unless `environment` names some. */
export class LocalBroker extends ServiceProcess {
  static async start(options: {
    workerUrl: string;
    hookSecret: string;
    environment?: Record<string, string>;
  }): Promise<LocalBroker> {
    const broker = new LocalBroker('broker', {
      env: {
        WORKER_URL: options.workerUrl,
        BROKER_HOOK_SECRET: options.hookSecret,
        BROKER_API_KEY: 'key',
        BROKER_API_SECRET: 'secret',
        MQTT_PORT: '0',
        BROKER_ADMIN_PORT: '0',
        ...options.environment,
      },
    });
    await broker.untilTold();
    return broker;
  }

  get ready(): { mqttPort: number; adminPort: number } {
    return this.states[0] as { mqttPort: number; adminPort: number };
  }
}

export class GatewayProcess extends ServiceProcess {
  readonly port: number;

  private constructor(environment: Record<string, string>, port: number) {
    super('gateway', { env: { LOG_LEVEL: 'debug', DRAIN_SECONDS: '0', ...environment } });
    this.port = port;
  }

  /** @param environment on top of what connects it to the Worker */
  static async start(workerUrl: string, environment: Record<string, string> = {}): Promise<GatewayProcess> {
    const [port, healthPort] = [Number(environment['MQTT_PORT'] ?? (await findFreePort())), await findFreePort()];
    const place = { LISTEN_HOST: '127.0.0.1', MQTT_PORT: String(port), HEALTH_PORT: String(healthPort) };
    const worker = { WORKER_URL: workerUrl, GATEWAY_SECRET: gatewaySecret };
    const gateway = new GatewayProcess({ ...worker, ...place, ...environment }, port);
    await gateway.untilTold();
    return gateway;
  }
}
