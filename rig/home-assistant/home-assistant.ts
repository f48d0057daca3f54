// Home Assistant without a browser, as a child process: a free loopback port, its own configuration folder, an owner with an access
// token, and the MQTT integration connected to one broker. `install.sh` beside it installs it. It must not reach the internet.
// Asserts nothing.
import { spawn, type ChildProcess } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../changes.ts';
import { findFreePort } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';

const requirements = readFileSync(new URL('requirements.txt', import.meta.url), 'utf8');
const version = /^homeassistant==(.+)$/m.exec(requirements)?.[1] ?? 'unknown';
const cacheDir = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
const python = join(cacheDir, 'latchwork', `home-assistant-${version}`, 'bin/python');

/** Over WebSocket if it has a `path`, otherwise over TCP. */
type MqttEntry = {
  host?: string;
  port: number;
  path?: string;
  username?: string;
  password?: string;
  protocol?: '3.1.1' | '5';
};
type EntityState = { entity_id: string; state: string; attributes: Record<string, unknown> };
type DeviceEntry = { id: string; name: string | null; identifiers: [string, string][] } & Record<string, unknown>;
type EntityEntry = { entity_id: string; unique_id: string; device_id: string | null } & Record<string, unknown>;

const running = new Set<ChildProcess>();
// It would outlive a test process that fails before `stop`.
process.once('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export class HomeAssistant {
  readonly configDir: string;
  readonly #port: number;
  readonly #token: string;
  #process: ChildProcess | undefined;

  private constructor(configDir: string, port: number, token: string) {
    this.configDir = configDir;
    this.#port = port;
    this.#token = token;
  }

  /** Why tests with Home Assistant are skipped here, or null if it is installed. */
  static missing(): string | null {
    return existsSync(python) ? null : `Home Assistant ${version} is not installed (rig/home-assistant/install.sh)`;
  }

  /** Resolves when it has started, whether it reaches the broker or not. */
  static async start(options: { mqtt: MqttEntry; configDir?: string }): Promise<HomeAssistant> {
    const configDir = options.configDir ?? makeTempDir('home-assistant');
    const port = await findFreePort();
    const home = new HomeAssistant(configDir, port, configure(configDir, port, options.mqtt));
    await home.#launch();
    return home;
  }

  states(): Promise<EntityState[]> {
    return this.#ask('states');
  }

  async state(entityId: string): Promise<EntityState | undefined> {
    return (await this.states()).find(({ entity_id }) => entity_id === entityId);
  }

  /** Resolves when the service has ended. A command with QoS 1 is acknowledged by then, or 10 s have passed. */
  async call(domain: string, service: string, data: Record<string, unknown>): Promise<void> {
    await this.#ask(`services/${domain}/${service}`, { method: 'POST', body: JSON.stringify(data) });
  }

  async registry(): Promise<{ devices: DeviceEntry[]; entities: EntityEntry[] }> {
    const lists = ['config/device_registry/list', 'config/entity_registry/list'].map((type) => this.#command(type));
    const [devices, entities] = (await Promise.all(lists)) as [DeviceEntry[], EntityEntry[]];
    return { devices, entities };
  }

  /** @throws Error with the end of the log when that takes too long */
  until(what: string, check: () => Promise<boolean> | boolean, timeoutMs?: number): Promise<void> {
    return eventually(() => `${what}; ${this.lastWords}`, check, timeoutMs);
  }

  /** What it has logged since its last start; of the MQTT integration also each message. */
  get log(): string {
    const file = join(this.configDir, 'home-assistant.log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  get lastWords(): string {
    const lines = this.log.split('\n').slice(-20);
    return `its last lines are ${lines.map((line) => line.slice(0, 300)).join('\n')}`;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.#launch();
  }

  /** With SIGTERM it saves its registries. It sends no DISCONNECT in either case, so that the broker publishes its will. */
  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async #launch(): Promise<void> {
    // `--skip-pip`: it would install at run time what requirements.txt leaves out.
    const child = spawn(python, ['-m', 'homeassistant', '--config', this.configDir, '--skip-pip'], {
      stdio: 'ignore',
      env: { PATH: process.env['PATH'], HOME: this.configDir },
    });
    this.#process = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    await this.until('Home Assistant has started', async () => {
      if (child.exitCode !== null) throw new Error(`Home Assistant ended at its start: ${this.lastWords}`);
      return this.#isRunning();
    });
  }

  async #isRunning(): Promise<boolean> {
    try {
      return (await this.#ask<{ state: string }>('config')).state === 'RUNNING';
    } catch (error) {
      // How fetch fails if it cannot connect.
      if (error instanceof TypeError) return false;
      throw error;
    }
  }

  async #ask<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const response = await fetch(`http://127.0.0.1:${this.#port}/api/${path}`, { ...init, headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}; ${this.lastWords}`);
    return (await response.json()) as Answer;
  }

  /** The result of a command of its WebSocket API. */
  async #command(type: string): Promise<unknown> {
    const socket = new WebSocket(`ws://127.0.0.1:${this.#port}/api/websocket`);
    const result = Promise.withResolvers<unknown>();
    socket.addEventListener('close', () => result.reject(new Error(`no result of ${type}; ${this.lastWords}`)));
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as { type: string; result?: unknown };
      if (message.type === 'auth_required') socket.send(JSON.stringify({ type: 'auth', access_token: this.#token }));
      if (message.type === 'auth_ok') socket.send(JSON.stringify({ id: 1, type }));
      if (message.type === 'result') result.resolve(message.result);
    });
    return result.promise.finally(() => socket.close());
  }
}

/** Writes the files that a person's first visit would lead to. @returns the owner's access token */
function configure(dir: string, port: number, { host, port: brokerPort, path, ...login }: MqttEntry): string {
  mkdirSync(join(dir, '.storage'), { recursive: true });
  const store = (key: string, major: number, data: unknown): void =>
    // Minor version 1: it fills in what later ones have added.
    writeFileSync(join(dir, '.storage', key), JSON.stringify({ version: major, minor_version: 1, key, data }));
  const transport = path === undefined ? { transport: 'tcp' } : { transport: 'websockets', ws_path: path };
  const data = { broker: host ?? '127.0.0.1', port: brokerPort, ...login, ...transport };
  const entry = { entry_id: 'rig', domain: 'mqtt', title: 'MQTT', version: 1, source: 'user', data };
  store('core.config_entries', 1, { entries: [entry] });
  store('onboarding', 4, { done: ['user', 'core_config', 'analytics', 'integration'] });
  const [userId, tokenId] = ['0', '1'].map((digit) => digit.repeat(32));
  const key = randomBytes(32).toString('hex');
  const issuedAt = Math.floor(Date.now() / 1000) - 60;
  const lifeSeconds = 86_400;
  const user = { id: userId, group_ids: ['system-admin'], is_owner: true, is_active: true, system_generated: false };
  const token = { id: tokenId, user_id: userId, client_id: null, client_name: 'rig', token: key, jwt_key: key };
  const kind = { token_type: 'long_lived_access_token', access_token_expiration: lifeSeconds };
  store('auth', 1, {
    groups: [{ id: 'system-admin', name: 'Administrators' }],
    users: [{ ...user, name: 'Owner' }],
    credentials: [],
    refresh_tokens: [{ ...token, ...kind, created_at: new Date(issuedAt * 1000).toISOString() }],
  });
  const configuration = {
    homeassistant: { name: 'Rig', latitude: 52, longitude: 5, elevation: 0, unit_system: 'metric', time_zone: 'UTC' },
    http: { server_host: '127.0.0.1', server_port: port },
    // It does not start without a frontend. This folder stands for the frontend's package.
    frontend: { development_repo: dir },
    logger: { default: 'info', logs: { 'homeassistant.components.mqtt': 'debug' } },
  };
  // Each JSON document is a YAML document.
  writeFileSync(join(dir, 'configuration.yaml'), JSON.stringify(configuration));
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const claims = { iss: tokenId, iat: issuedAt, exp: issuedAt + lifeSeconds };
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
}
