// The production bridge as a child process, started as an operator would: environment in, logs out, signals.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Changes } from './changes.ts';
import { bridgeSecret } from './worker-side.ts';

const mainPath = fileURLToPath(new URL('../../broker-bridge/src/main.ts', import.meta.url));

export type LogLine = { level: string; message: string } & Record<string, unknown>;

export function makeSpoolDir(): string {
  return mkdtempSync(join(tmpdir(), 'bridge-spool-'));
}

export class BridgeProcess {
  readonly changes = new Changes();
  readonly lines: LogLine[] = [];
  readonly states: Record<string, unknown>[] = [];
  stderr = '';
  readonly child: ChildProcess;

  constructor(environment: Record<string, string>) {
    this.child = fork(mainPath, {
      // Nothing of the surrounding environment: what a test does not set must not matter.
      env: { PATH: process.env['PATH'] ?? '', LOG_LEVEL: 'debug', ...environment },
      execArgv: ['--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
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

  get hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  async untilLogged(message: string): Promise<LogLine> {
    const find = (): LogLine | undefined => this.lines.find((line) => line.message === message);
    await this.changes.until(`the log line "${message}"`, () => find() !== undefined);
    return find()!;
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
    MQTT_CLIENT_ID: 'latchwork-bridge',
    SPOOL_DIR: options.spoolDir,
  };
}
