// Debian's mosquitto with its dynamic security plugin, as a child process: a free loopback port and a data folder that
// outlives a stop. Set up with the examples of broker-bridge/BROKERS.md.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mosquittoMissing } from './mosquitto.ts';
import { untilListening } from './ports.ts';
import { readExample } from './broker-guide.ts';

const plugin = globSync('/usr/lib/*/mosquitto_dynamic_security.so')[0];
const administratorPassword = 'password-of-the-broker-administrator';

/** Why tests with dynamic security are left out here, or null where it is installed. */
export const dynamicSecurityMissing =
  mosquittoMissing ?? (plugin === undefined ? 'mosquitto has no dynamic security plugin here' : null);

export class DynamicMosquitto {
  readonly port: number;
  readonly #dir: string;
  #process: ChildProcess | undefined;

  private constructor(port: number, dir: string) {
    this.port = port;
    this.#dir = dir;
  }

  static async start(options: { port: number; bridgePassword: string }): Promise<DynamicMosquitto> {
    const broker = new DynamicMosquitto(options.port, mkdtempSync(join(tmpdir(), 'latchwork-mosquitto-')));
    broker.#configure();
    await broker.startAgain();
    broker.#setUpBridge(options.bridgePassword);
    return broker;
  }

  async startAgain(): Promise<void> {
    const child = spawn('/usr/sbin/mosquitto', ['-c', join(this.#dir, 'mosquitto.conf')], { stdio: 'ignore' });
    this.#process = child;
    await untilListening(this.port);
  }

  /** Its data folder stays, for `startAgain`. */
  async halt(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }

  async stop(): Promise<void> {
    await this.halt();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  /** The client as the plugin knows it, in its own words. */
  describeClient(username: string): string {
    const login = `-h 127.0.0.1 -p ${this.port} -u admin -P ${administratorPassword}`;
    return run(`mosquitto_ctrl ${login} dynsec getClient '${username}'`);
  }

  #configure(): void {
    const config = readExample('mosquitto', 'conf', 0, {
      'listener 1883': `listener ${this.port} 127.0.0.1`,
      '/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so': plugin ?? '',
      '/var/lib/mosquitto/': `${this.#dir}/`,
    });
    // Started by root, it would otherwise change to a user that cannot write here.
    writeFileSync(join(this.#dir, 'mosquitto.conf'), `${config}user root\n`);
    const init = { '/var/lib/mosquitto/': `${this.#dir}/`, ADMIN_PASSWORD: administratorPassword };
    run(readExample('mosquitto', 'sh', 0, init));
  }

  #setUpBridge(password: string): void {
    const values = { '-p 1883': `-p ${this.port}`, ADMIN_PASSWORD: administratorPassword, BRIDGE_SECRET: password };
    run(readExample('mosquitto', 'sh', 1, values));
  }
}

function run(script: string): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-e', '-c', script], { encoding: 'utf8' });
  if (status !== 0 || /error/i.test(stderr)) throw new Error(`setting mosquitto up: ${stderr}`);
  return stdout;
}
