// `npm start` as a process, on free ports with a state folder of its own: its output, its parts and their processes.
// Asserts nothing.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Changes } from './changes.ts';
import { findFreePort, makeTempDir } from './ports.ts';

const startScript = fileURLToPath(new URL('../../dev/start.ts', import.meta.url));
const patienceMs = 60_000;

export type LocalPlace = { stateDir: string; apiPort: number; mqttPort: number };

export async function chooseLocalPlace(): Promise<LocalPlace> {
  return { stateDir: makeTempDir('run'), apiPort: await findFreePort(), mqttPort: await findFreePort() };
}

export class LocalRun {
  readonly process: ChildProcess;
  readonly place: LocalPlace;
  readonly #changes = new Changes();
  output = '';

  constructor(place: LocalPlace, env: Record<string, string> = {}) {
    const { stateDir, apiPort, mqttPort } = place;
    this.place = place;
    this.process = spawn(process.execPath, [startScript], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, API_PORT: String(apiPort), MQTT_PORT: String(mqttPort), STATE_DIR: stateDir, ...env },
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.output += chunk.toString();
        this.#changes.note();
      });
    }
    this.process.once('exit', () => this.#changes.note());
  }

  get url(): string {
    return `http://127.0.0.1:${this.place.apiPort}`;
  }

  get hasEnded(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }

  /** @throws Error with the output when the run ends without the text */
  async untilTold(text: RegExp, timeoutMs = patienceMs): Promise<void> {
    const describe = () => `the output has ${String(text)}: ${this.output}`;
    await this.#changes.until(describe, () => text.test(this.output) || this.hasEnded, timeoutMs);
    if (!text.test(this.output)) throw new Error(`ended without ${describe()}`);
  }

  /** Resolves with the exit code, null where a signal ended it. */
  async untilEnd(): Promise<number | null> {
    if (!this.hasEnded) await once(this.process, 'exit');
    return this.process.exitCode;
  }

  async stop(): Promise<void> {
    if (!this.hasEnded) this.process.kill('SIGTERM');
    await this.untilEnd();
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
