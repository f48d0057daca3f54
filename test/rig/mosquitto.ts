// Debian's mosquitto as a child process, for tests: a free loopback port, its own configuration and data folder.
// Any stop keeps the data folder, so that a broker can be started again with its sessions.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePort, untilListening } from './ports.ts';

const binary = '/usr/sbin/mosquitto';

/** Why tests with mosquitto are left out here, or null where it is installed. */
export const mosquittoMissing = existsSync(binary) ? null : 'mosquitto is not installed (apt-get install mosquitto)';

export class Mosquitto {
  readonly port: number;
  readonly #dir: string;
  #process: ChildProcess | null = null;

  private constructor(port: number, dir: string) {
    this.port = port;
    this.#dir = dir;
  }

  static async start(extraConfig = ''): Promise<Mosquitto> {
    const dir = await mkdtemp(join(tmpdir(), 'bridge-mosquitto-'));
    const port = await findFreePort();
    const lines = [
      `listener ${port} 127.0.0.1`,
      'allow_anonymous true',
      'set_tcp_nodelay true',
      'persistence true',
      `persistence_location ${dir}/`,
      // Started by root, it would otherwise change to a user that cannot write here.
      'user root',
      'max_queued_messages 100000',
      extraConfig,
    ];
    await writeFile(join(dir, 'mosquitto.conf'), lines.join('\n'));
    const broker = new Mosquitto(port, dir);
    await broker.startAgain();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  async startAgain(): Promise<void> {
    this.#process = spawn(binary, ['-c', join(this.#dir, 'mosquitto.conf')], { stdio: 'ignore' });
    await untilListening(this.port);
  }

  /** SIGTERM lets it write its sessions down; SIGKILL does not. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGCONT');
    child.kill(signal);
    await once(child, 'exit');
  }

  /** Stops answering without closing anything, as a machine does that hangs. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }
}
