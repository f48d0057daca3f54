// Debian's mosquitto with its dynamic security plugin, as a child process: a free loopback port and a data folder that
// outlives a stop. Set up with the commands of broker-bridge/BROKERS.md.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { mosquittoMissing } from './broker-mosquitto.ts';

const plugin = globSync('/usr/lib/*/mosquitto_dynamic_security.so')[0];
const administrator = ['admin', 'password-of-the-broker-administrator'] as const;

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
    return this.#control('getClient', username);
  }

  #configure(): void {
    const security = join(this.#dir, 'dynamic-security.json');
    run('mosquitto_ctrl', ['dynsec', 'init', security, ...administrator]);
    const lines = [
      `listener ${this.port} 127.0.0.1`,
      'allow_anonymous false',
      `plugin ${plugin ?? ''}`,
      `plugin_opt_config_file ${security}`,
      'set_tcp_nodelay true',
      'max_queued_messages 100000',
      'persistence true',
      `persistence_location ${this.#dir}/`,
      // Started by root, it would otherwise change to a user that cannot write here.
      'user root',
    ];
    writeFileSync(join(this.#dir, 'mosquitto.conf'), `${lines.join('\n')}\n`);
  }

  #setUpBridge(password: string): void {
    const [name, role] = ['latchwork-bridge', 'latchwork-bridge'];
    this.#control('createRole', role);
    for (const action of ['thing/event/property/post', 'thing/service/property/set_reply', 'status']) {
      this.#control('addRoleACL', role, 'subscribeLiteral', `/sys/+/+/${action}`, 'allow');
    }
    for (const topic of ['/sys/+/+/thing/service/property/set', '/sys/+/+/status', '$CONTROL/dynamic-security/v1']) {
      this.#control('addRoleACL', role, 'publishClientSend', topic, 'allow');
    }
    this.#control('createClient', name, '-c', name, '-p', password);
    this.#control('addClientRole', name, role);
  }

  #control(...command: string[]): string {
    const [username, password] = administrator;
    const at = ['-h', '127.0.0.1', '-p', String(this.port), '-u', username, '-P', password];
    return run('mosquitto_ctrl', [...at, 'dynsec', ...command]);
  }
}

function run(program: string, args: string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0 || /error/i.test(stderr)) throw new Error(`${program} ${args.slice(-3).join(' ')}: ${stderr}`);
  return stdout;
}

/** Resolves when something listens on a loopback port. */
export async function untilListening(port: number, timeoutMs = 5_000): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs;
  while (!(await isListening(port))) {
    if (Date.now() > deadlineMs) throw new Error(`nobody listens on port ${port}`);
    await sleep(20);
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
