// A Node service of ours as a child process, started as an operator would: environment in, logs out, signals. What it does
// is seen from outside; nothing here reaches into it.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Changes } from '../changes.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export type LogLine = { level: string; message: string } & Record<string, unknown>;
export type SpawnOptions = { env: NodeJS.ProcessEnv; nodeOptions?: string[]; detached?: boolean };

/** With nothing of the surrounding environment but PATH: what a test does not set must not matter. */
export function spawnService(script: string, { env, nodeOptions = [], detached = false }: SpawnOptions): ChildProcess {
  // node:sqlite announces itself as experimental on every start.
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...nodeOptions, script], {
    cwd: root,
    detached,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
}

export class ServiceProcess {
  readonly changes = new Changes();
  readonly lines: LogLine[] = [];
  /** What it told its parent. */
  readonly states: Record<string, unknown>[] = [];
  stderr = '';
  readonly child: ChildProcess;

  constructor(child: ChildProcess) {
    this.child = child;
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

  /** For the message of a failure. */
  get lastWords(): string {
    return `its last lines are ${JSON.stringify(this.lines.slice(-6))} ${this.stderr}`;
  }
}
