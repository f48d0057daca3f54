// Keeps the parts running: starts them, starts a dead one again with a line that says so, writes parts.json, stops
// them in order. Each part leads its own process group, so that Ctrl-C reaches the supervisor alone and nothing a
// part started survives it. Knows parts by name and command only.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLogFile } from './log-files.ts';
import { type PartPids, writeParts } from './parts-file.ts';
import { killGroup } from '../test/rig/built-worker.ts';
import type { Part } from '../test/rig/parts.ts';
import { createTroubleFilter, fail, say, warn } from './terminal.ts';

const steadyAfterMs = 30_000;
const firstPauseMs = 200;
const longestPauseMs = 5_000;
/** What each part gets to end by itself; three of them have to fit in three seconds. */
const patienceMs = 800;

type Running = {
  part: Part;
  child: ChildProcess;
  exited: Promise<undefined>;
  startedAtMs: number;
  quickDeaths: number;
};

export class Supervisor {
  readonly #stateDir: string;
  readonly #running = new Map<string, Running>();
  readonly #onRestart: (name: string) => void;
  #isStopping = false;

  constructor(stateDir: string, onRestart: (name: string) => void) {
    this.#stateDir = stateDir;
    this.#onRestart = onRestart;
  }

  /**
   * Resolves when the part reports that it is ready.
   * @throws Error with what it wrote to stderr when it ends before that: a first start that fails is not repeated
   */
  async start(part: Part): Promise<void> {
    const running = this.#spawn(part, 0);
    const errors: string[] = [];
    running.child.stderr?.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
    if ((await Promise.race([once(running.child, 'message'), running.exited])) === undefined) {
      const where = `see ${this.#stateDir}/logs/${part.name}.log`;
      throw new Error(`The ${part.name} did not start; ${where}. ${errors.join('')}`.trim());
    }
    this.#watch(running);
  }

  pidOf(name: string): number | undefined {
    return this.#running.get(name)?.child.pid;
  }

  /** Ends the parts one after the other, last started first, and whatever they leave behind. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { child, exited } of [...this.#running.values()].reverse()) {
      // Every part ends with its parent; a signal would make Miniflare kill workerd at once (worker-process.ts).
      if (child.connected) child.disconnect();
      await Promise.race([exited, sleep(patienceMs)]);
    }
    this.killAll();
  }

  /** At once; also called when this process ends for whatever reason. */
  killAll(): void {
    this.#isStopping = true;
    for (const { child } of this.#running.values()) if (child.pid !== undefined) killGroup(child.pid);
  }

  #spawn(part: Part, quickDeaths: number): Running {
    const child = part.spawn();
    const exited = new Promise<undefined>((resolve) => child.once('exit', () => resolve(undefined)));
    const running: Running = { part, child, exited, startedAtMs: Date.now(), quickDeaths };
    this.#running.set(part.name, running);
    const pids: PartPids = {};
    for (const [name, { child: other }] of this.#running) if (other.pid !== undefined) pids[name] = { pid: other.pid };
    writeParts(this.#stateDir, pids);
    const keep = openLogFile(this.#stateDir, part.name);
    const showTrouble = createTroubleFilter(part.name);
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        keep(line);
        if (!this.#isStopping) showTrouble(line);
      });
    }
    child.on('error', (error) => keep(String(error)));
    return running;
  }

  #watch(running: Running): void {
    running.child.once('exit', (code, signal) => {
      if (running.child.pid !== undefined) killGroup(running.child.pid);
      if (!this.#isStopping) this.#restart(running, signal ?? `exit code ${code ?? 'unknown'}`).catch(fail);
    });
  }

  async #restart({ part, child, startedAtMs, quickDeaths }: Running, cause: string): Promise<void> {
    const deaths = Date.now() - startedAtMs > steadyAfterMs ? 0 : quickDeaths + 1;
    const pauseMs = deaths <= 1 ? 0 : Math.min(longestPauseMs, firstPauseMs * 2 ** (deaths - 2));
    const when = pauseMs === 0 ? '' : ` in ${pauseMs} ms; see ${this.#stateDir}/logs/${part.name}.log`;
    warn(part.name, `ended (pid ${child.pid ?? 0}, ${cause}): starting it again${when}`);
    await sleep(pauseMs);
    if (this.#isStopping) return;
    const next = this.#spawn(part, deaths);
    this.#watch(next);
    say(part.name, `started again, pid ${next.child.pid ?? 0}`);
    next.child.once('message', () => this.#onRestart(part.name));
  }
}
