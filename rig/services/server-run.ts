// `npm run serve` as a process, on free ports with a folder of its own: what it prints, its parts and their processes. Asserts nothing.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import { findFreePort } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';
import { AwaitedProcess } from './processes.ts';

const command = fileURLToPath(new URL('../../serve/main.ts', import.meta.url));
const patienceMs = 180_000;
const portNames = ['API_PORT', 'GATEWAY_PORT', 'HEALTH_PORT'] as const;

/** Runs a command of it to its end. */
export function serveOnce(args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, output: stdout + stderr };
}

/** As `serveOnce`, while this process goes on. @param program whose command it is */
export async function serveMeanwhile(args: string[], program = command): Promise<{ status: number; output: string }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [status] = (await once(child, 'close')) as [number];
  return { status, output };
}

/** A folder as `init` makes it, with free ports and these settings. */
export async function prepareServer(settings: Record<string, string> = {}): Promise<string> {
  const dataDir = join(makeTempDir('server'), 'data');
  // Builds the Worker, which two must not do at once.
  const init = [process.execPath, command, 'init', '--host', '127.0.0.1', '--data', dataDir];
  await promisify(execFile)('flock', [join(tmpdir(), 'latchwork-serve-build.lock'), ...init]);
  const ports: Record<string, string> = {};
  for (const name of portNames) ports[name] = String(await findFreePort());
  changeSettings(dataDir, { ...ports, ...settings });
  return dataDir;
}

export function changeSettings(dataDir: string, settings: Record<string, string>): void {
  const path = join(dataDir, 'settings.env');
  const names = Object.keys(settings);
  const kept = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => !names.some((name) => line.startsWith(`${name}=`)));
  writeFileSync(path, [...kept, ...names.map((name) => `${name}=${settings[name]}`), ''].join('\n'));
}

export class ServerRun extends AwaitedProcess {
  readonly dataDir: string;
  readonly settings: NodeJS.Dict<string>;
  output = '';

  /** @param before what the command is an argument of, such as prlimit */
  constructor(dataDir: string, env: Record<string, string> = {}, before: string[] = [], program = command) {
    const [file, ...args] = [...before, process.execPath, program, 'run', '--data', dataDir];
    super(spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } }));
    this.dataDir = dataDir;
    this.settings = parseEnv(readFileSync(join(dataDir, 'settings.env'), 'utf8'));
    for (const stream of ['stdout', 'stderr'] as const) this.collect(stream, (text) => (this.output += text));
  }

  static async start(dataDir: string, env: Record<string, string> = {}, before: string[] = []): Promise<ServerRun> {
    const run = new ServerRun(dataDir, env, before);
    await run.untilLogged('serving');
    return run;
  }

  get url(): string {
    return `http://127.0.0.1:${this.settings['API_PORT']}`;
  }

  get mqttUrl(): string {
    return `mqtt://127.0.0.1:${this.settings['GATEWAY_PORT']}`;
  }

  get operatorSecret(): string {
    return parseEnv(readFileSync(join(this.dataDir, 'secrets.env'), 'utf8'))['OPERATOR_SECRETS'] ?? '';
  }

  /** Lines that are whole. @throws SyntaxError if one of them is not JSON */
  get lines(): Record<string, unknown>[] {
    const whole = this.output.split('\n').slice(0, -1);
    return whole.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** @throws Error with the output if it ends without that event */
  async untilLogged(event: string): Promise<Record<string, unknown>> {
    const find = () => this.lines.find((line) => line['event'] === event);
    const describe = () => `the event ${event}: ${this.output}`;
    await this.changes.until(describe, () => this.hasExited || find() !== undefined, patienceMs);
    const found = find();
    if (found === undefined) throw new Error(`ended without ${describe()}`);
    return found;
  }

  /** Which process is which part now; each leads a process group. */
  get parts(): Record<string, { pid: number }> {
    return JSON.parse(readFileSync(join(this.dataDir, 'parts.json'), 'utf8')) as Record<string, { pid: number }>;
  }

  async readMetrics(): Promise<string> {
    const headers = { Authorization: `Bearer ${this.operatorSecret}` };
    return (await fetch(`${this.url}/operator/metrics`, { headers })).text();
  }
}
