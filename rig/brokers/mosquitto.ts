// Debian's mosquitto as a child process: a free loopback port, its own configuration and data folder. The data folder
// stays after a stop, so that the broker can be started again with its sessions.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findFreePort, untilListening } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';

const binary = '/usr/sbin/mosquitto';

/** Why tests with mosquitto are skipped here, or null if it is installed. */
export const mosquittoMissing = existsSync(binary) ? null : 'mosquitto is not installed (apt-get install mosquitto)';

/** What differs from its defaults, apart from ports and folders. Anybody may log in: loopback is the protection. */
export const mosquittoSettings = [
  'allow_anonymous true',
  'set_tcp_nodelay true',
  'persistence true',
  // With the default of 1 000 it acknowledges and then drops what a subscriber cannot take at once.
  'max_queued_messages 100000',
];

export class Mosquitto {
  readonly port: number;
  readonly #configFile: string;
  #process: ChildProcess | undefined;

  private constructor(port: number, configFile: string) {
    this.port = port;
    this.#configFile = configFile;
  }

  static async start(extraConfig = ''): Promise<Mosquitto> {
    const port = await findFreePort();
    return Mosquitto.launch(port, (dir) =>
      [`listener ${port} 127.0.0.1`, `persistence_location ${dir}/`, ...mosquittoSettings, extraConfig].join('\n'),
    );
  }

  /** With a whole configuration, which must listen on `port`; `configure` may prepare the data folder. `user`: of its own. */
  static async launch(port: number, configure: (dir: string) => string, ownUser?: string): Promise<Mosquitto> {
    const dir = makeTempDir('mosquitto');
    const configFile = join(dir, 'mosquitto.conf');
    // Started by root, it would otherwise change to a user that cannot write here.
    const user = process.getuid?.() === 0 ? `user ${ownUser ?? 'root'}\n` : '';
    writeFileSync(configFile, `${configure(dir)}\n${user}`);
    const broker = new Mosquitto(port, configFile);
    await broker.startAgain();
    return broker;
  }

  get dir(): string {
    return dirname(this.#configFile);
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  async startAgain(): Promise<void> {
    this.#process = spawn(binary, ['-c', this.#configFile], { stdio: 'ignore' });
    await untilListening(this.port);
  }

  /** With SIGTERM it writes its sessions to the disk; with SIGKILL it does not. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGCONT');
    child.kill(signal);
    await once(child, 'exit');
  }

  /** Stops answering without closing anything, like a machine that hangs. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }
}

export function mosquittoVersion(): string {
  if (mosquittoMissing !== null) return 'missing';
  // The version stands in its help text alone.
  return /version (\S+)/.exec(spawnSync(binary, ['-h'], { encoding: 'utf8' }).stdout)?.[1] ?? 'unknown';
}
