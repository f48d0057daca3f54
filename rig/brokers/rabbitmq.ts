// Debian's RabbitMQ with the MQTT plugin and the HTTP authorization backend, as a child process. Free loopback ports, data
// folder, cookie, node name and name server are its own.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { makeCertificates } from '../certificates.ts';
import { findFreePort, untilListening } from '../ports.ts';
import { readExample } from './broker-examples.ts';

// Not /usr/sbin/rabbitmq-server, which changes to another user and forgets the environment on the way.
const binary = '/usr/lib/rabbitmq/bin/rabbitmq-server';

/** Why tests with RabbitMQ are left out here, or null if it is installed. */
export const rabbitmqMissing = existsSync(binary)
  ? null
  : 'RabbitMQ is not installed (apt-get install rabbitmq-server)';

export class RabbitMq {
  readonly port: number;
  readonly #dir: string;
  readonly #process: ChildProcess;
  readonly #nameServer: ChildProcess;
  readonly #lines: string[] = [];

  private constructor(port: number, dir: string, nameServer: ChildProcess, process: ChildProcess) {
    this.port = port;
    this.#dir = dir;
    this.#nameServer = nameServer;
    this.#process = process;
  }

  /** `hookUrl` is where the Worker's RabbitMQ hooks are, the secret included; `caFile` has the authority it is trusted by. */
  static async start(options: { port: number; hookUrl: string; caFile?: string }): Promise<RabbitMq> {
    const { port, hookUrl } = options;
    const caFile = options.caFile === undefined ? {} : { '/etc/ssl/certs/ca-certificates.crt': options.caFile };
    const { serverCert, serverKey } = makeCertificates('mqtt.test');
    const dir = await mkdtemp(join(tmpdir(), 'latchwork-rabbitmq-'));
    const example = readExample('rabbitmq/rabbitmq.conf', {
      'mqtt.listeners.tcp.1 = 127.0.0.1:1883': `mqtt.listeners.tcp.1 = 127.0.0.1:${port}`,
      'mqtt.listeners.ssl.default = 8883': `mqtt.listeners.ssl.1 = 127.0.0.1:${await findFreePort()}`,
      '/etc/rabbitmq/certs/fullchain.pem': serverCert,
      '/etc/rabbitmq/certs/privkey.pem': serverKey,
      'https://api.example.com:443/hooks/rabbitmq/s/HOOK_SECRET': hookUrl,
    });
    await writeFile(join(dir, 'rabbitmq.conf'), `${example}listeners.tcp = none\n`);
    await writeFile(join(dir, 'advanced.config'), readExample('rabbitmq/advanced.config', caFile));
    await writeFile(join(dir, 'enabled_plugins'), '[rabbitmq_mqtt,rabbitmq_auth_backend_http].\n');
    const nameServerPort = await findFreePort();
    // A child of the test. The Erlang machine would start one of its own that outlives it.
    const nameServer = spawn(nameServerBinary(), ['-port', String(nameServerPort), '-address', '127.0.0.1'], {
      stdio: 'ignore',
    });
    await untilListening(nameServerPort);
    const child = spawn(binary, {
      cwd: dir,
      // A group of its own: the script starts the Erlang machine as a child and outlives a signal to itself.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        HOME: dir,
        ERL_EPMD_ADDRESS: '127.0.0.1',
        ERL_EPMD_PORT: String(nameServerPort),
        RABBITMQ_ADVANCED_CONFIG_FILE: join(dir, 'advanced.config'),
        RABBITMQ_CONF_ENV_FILE: '/dev/null',
        RABBITMQ_CONFIG_FILE: join(dir, 'rabbitmq.conf'),
        RABBITMQ_DIST_PORT: String(await findFreePort()),
        RABBITMQ_ENABLED_PLUGINS_FILE: join(dir, 'enabled_plugins'),
        RABBITMQ_FEATURE_FLAGS_FILE: join(dir, 'feature_flags'),
        RABBITMQ_LOGS: '-',
        RABBITMQ_MNESIA_BASE: join(dir, 'mnesia'),
        RABBITMQ_NODENAME: `latchwork-${port}@localhost`,
        RABBITMQ_PID_FILE: join(dir, 'pid'),
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
      },
    });
    const broker = new RabbitMq(port, dir, nameServer, child);
    await broker.#untilStarted();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** Its output so far, for the message of a failed test. */
  get log(): string {
    return this.#lines.join('\n');
  }

  async stop(): Promise<void> {
    const { pid } = this.#process;
    if (this.#process.exitCode === null && this.#process.signalCode === null && pid !== undefined) {
      const exited = once(this.#process, 'exit');
      // There is nothing to keep, and an orderly end takes seconds.
      process.kill(-pid, 'SIGKILL');
      await exited;
    }
    const gone = once(this.#nameServer, 'exit');
    this.#nameServer.kill('SIGKILL');
    await gone;
    await rm(this.#dir, { recursive: true, force: true });
  }

  async #untilStarted(): Promise<void> {
    const started = Promise.withResolvers<undefined>();
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        this.#lines.push(line);
        if (line.includes('Server startup complete')) started.resolve(undefined);
      });
    }
    const exited = once(this.#process, 'exit').then(() => 'exited');
    const timer = setTimeout(() => started.reject(new Error(`RabbitMQ does not start:\n${this.log}`)), 120_000);
    const first = await Promise.race([started.promise, exited]);
    clearTimeout(timer);
    if (first === 'exited') throw new Error(`RabbitMQ ended at its start:\n${this.log}`);
  }
}

/** epmd; it lies in the runtime's own folder. */
function nameServerBinary(): string {
  const root = '/usr/lib/erlang';
  const runtime = readdirSync(root).find((name) => name.startsWith('erts-')) ?? '';
  return join(root, runtime, 'bin/epmd');
}
