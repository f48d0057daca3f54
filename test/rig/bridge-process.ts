// The production bridge as a child process, started as an operator would: environment in, logs out, signals. What it
// does is seen at the broker, the Worker and its log; nothing here reaches into it.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Changes } from './changes.ts';
import { makeTempDir } from './ports.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readyWithinMs = 60_000;

export const bridgeSecret = 'a-bridge-secret-of-at-least-32-characters';
/** Its password at the broker. */
export const bridgePassword = 'an-mqtt-password-of-at-least-32-characters';
/** MQTT user name, and client id where a test gives it one. */
export const bridgeName = 'latchwork-bridge';

export type LogLine = { level: string; message: string } & Record<string, unknown>;
export type SpawnOptions = { env: NodeJS.ProcessEnv; nodeOptions?: string[]; detached?: boolean };

/** With nothing of the surrounding environment but PATH: what a test does not set must not matter. */
export function spawnBridge({ env, nodeOptions = [], detached = false }: SpawnOptions): ChildProcess {
  // node:sqlite announces itself as experimental on every start.
  const script = ['--disable-warning=ExperimentalWarning', ...nodeOptions, 'broker-bridge/src/main.ts'];
  return spawn(process.execPath, script, {
    cwd: root,
    detached,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
}

export function makeSpoolDir(): string {
  return makeTempDir('spool');
}

export class BridgeProcess {
  readonly changes = new Changes();
  readonly lines: LogLine[] = [];
  readonly states: Record<string, unknown>[] = [];
  stderr = '';
  readonly child: ChildProcess;

  constructor(environment: Record<string, string>, nodeOptions: string[] = []) {
    this.child = spawnBridge({ env: { LOG_LEVEL: 'debug', ...environment }, nodeOptions });
    let rest = '';
    this.child.stdout?.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.startsWith('{')) this.lines.push(JSON.parse(line) as LogLine);
      this.changes.note();
    });
    this.child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString();
      this.changes.note();
    });
    this.child.on('message', (message) => {
      this.states.push(message as Record<string, unknown>);
      this.changes.note();
    });
    this.child.on('exit', () => this.changes.note());
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** By what it last reported of itself. */
  get isBrokerConnected(): boolean {
    return this.states.at(-1)?.['broker'] === 'connected';
  }

  async untilLogged(message: string): Promise<LogLine> {
    const find = (): LogLine | undefined => this.lines.find((line) => line.message === message);
    await this.changes.until(`the log line "${message}"`, () => find() !== undefined);
    return find()!;
  }

  /** The broker queues for the bridge from its first subscription on, and only from then. */
  async untilBrokerConnected(): Promise<void> {
    await this.#untilState('a bridge connected to the broker', () => this.isBrokerConnected);
  }

  /** Resolves when it is the active bridge and connected to broker and Worker. */
  async untilReady(): Promise<void> {
    await this.#untilState('an active bridge that is connected to broker and Worker', () => {
      const state = this.states.at(-1);
      return this.isBrokerConnected && state?.['link'] === 'connected' && state['role'] === 'active';
    });
  }

  /** Resolves with the exit code, null where a signal ended it. */
  async untilExit(): Promise<number | null> {
    if (!this.hasExited) await once(this.child, 'exit');
    return this.child.exitCode;
  }

  async kill(signal: NodeJS.Signals): Promise<number | null> {
    if (!this.hasExited) this.child.kill(signal);
    return this.untilExit();
  }

  /** For the message of a failure. */
  get lastWords(): string {
    return `its last lines are ${JSON.stringify(this.lines.slice(-6))} ${this.stderr}`;
  }

  async #untilState(what: string, isSo: () => boolean): Promise<void> {
    const describe = () => `${what}; ${this.lastWords}`;
    await this.changes.until(describe, isSo, readyWithinMs);
  }
}

/** For tests and benchmarks whose devices send as much as they can. */
export const unlimitedDevices = { DEVICE_MESSAGES_PER_SECOND: '1000000', DEVICE_MESSAGES_BURST: '1000000' };

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
