// `npm start` as a process, on free ports with a state folder of its own: its output, its parts and their processes.
// Asserts nothing.
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';
import { AwaitedProcess } from './processes.ts';

const startScript = fileURLToPath(new URL('../../dev/start.js', import.meta.url));
const patienceMs = 180_000;

const portNames = ['API_PORT', 'MQTT_PORT', 'MQTT_TLS_PORT', 'BROKER_ADMIN_PORT', 'HEALTH_PORT'] as const;

export type LocalPlace = { stateDir: string; ports: Record<(typeof portNames)[number], string> };

/** Chooses all ports, so that two runs at the same time do not meet. */
export async function chooseLocalPlace(): Promise<LocalPlace> {
  const ports = new Map<string, string>();
  for (const name of portNames) ports.set(name, String(await findFreePort()));
  return { stateDir: makeTempDir('run'), ports: Object.fromEntries(ports) as LocalPlace['ports'] };
}

export class LocalRun extends AwaitedProcess {
  readonly place: LocalPlace;
  output = '';

  constructor(place: LocalPlace, env: Record<string, string> = {}) {
    const settings = { ...process.env, ...place.ports, STATE_DIR: place.stateDir, ...env };
    super(spawn(process.execPath, [startScript], { stdio: ['ignore', 'pipe', 'pipe'], env: settings }));
    this.place = place;
    for (const stream of ['stdout', 'stderr'] as const) this.collect(stream, (text) => (this.output += text));
  }

  get url(): string {
    return `http://127.0.0.1:${this.place.ports.API_PORT}`;
  }

  /** @throws Error with the output when the run ends without the text */
  async untilTold(text: RegExp, timeoutMs = patienceMs): Promise<void> {
    const describe = () => `the output has ${String(text)}: ${this.output}`;
    await this.changes.until(describe, () => text.test(this.output) || this.hasExited, timeoutMs);
    if (!text.test(this.output)) throw new Error(`ended without ${describe()}`);
  }

  /** Which process is which part now; each leads a process group. */
  get parts(): Record<string, { pid: number }> {
    return JSON.parse(readFileSync(join(this.place.stateDir, 'parts.json'), 'utf8')) as Record<string, { pid: number }>;
  }

  pidOf(part: string): number {
    const pid = this.parts[part]?.pid;
    if (pid === undefined) throw new Error(`parts.json does not name the ${part}`);
    return pid;
  }

  get groups(): number[] {
    return Object.values(this.parts).map(({ pid }) => pid);
  }

  /** The status of the answer, 0 if there is none. */
  async askHealth(): Promise<number> {
    try {
      return (await fetch(`${this.url}/health`)).status;
    } catch (error) {
      // How fetch fails if it cannot connect.
      if (error instanceof TypeError) return 0;
      throw error;
    }
  }

  get demoDeviceId(): string {
    return /activated as (dev_\w+)/.exec(this.output)?.[1] ?? '';
  }

  /** A client of the API in the name of the demo's user. */
  demoClient() {
    const token = /^TOKEN=(\S+)$/m.exec(this.output)?.[1] ?? '';
    return async (path: string, init: RequestInit = {}) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const response = await fetch(`${this.url}/api/v1${path}`, { ...init, headers });
      return (await response.json()) as { code: number; data: Record<string, unknown> };
    };
  }

  /** Entries of a part's log file with that event. */
  logged(part: string, event: string): Record<string, unknown>[] {
    const lines = readFileSync(join(this.place.stateDir, 'logs', `${part}.log`), 'utf8').split('\n');
    const entries = lines
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    return entries.filter((entry) => entry['event'] === event);
  }
}

/** Processes of the groups, workerd included; ended ones that nobody has collected yet do not count. */
export function groupMembers(groups: number[]): string[] {
  const { stdout } = spawnSync('ps', ['-Ao', 'pgid=,stat=,pid=,args='], { encoding: 'utf8' });
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([group, state]) => groups.includes(Number(group)) && state?.startsWith('Z') !== true)
    .map((columns) => columns.slice(2).join(' ').slice(0, 80));
}
