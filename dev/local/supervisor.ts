// Keeps the parts running: starts them, starts one that is dead or gives no sign of life again with a line that says so,
// writes parts.json, stops them in order. Each part leads its own process group, so that Ctrl-C reaches the supervisor alone and nothing a
// part started survives it. Knows parts by name and command only.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { SuspensionWatch } from '../../node-service/suspension.ts';
import { isLifeless } from './life-watch.ts';
import { openPartLog } from './log-files.ts';
import { type PartPids, writeParts } from './parts-file.ts';
import { killGroup } from '../../rig/worker/built-worker.ts';
import type { Part } from '../../rig/services/parts.ts';
import { createTroubleFilter, fail, say, warn } from '../terminal.ts';
import { describeFailure } from '../../rig/clients/api.ts';

const steadyAfterMs = 30_000;
const firstPauseMs = 200;
const longestPauseMs = 5_000;
/** What each part gets to end by itself; three of them have to fit in three seconds. */
const patienceMs = 800;
const readyWithinMs = 60_000;

type Running = {
  part: Part;
  child: ChildProcess;
  exited: Promise<undefined>;
  /** How many it has printed. */
  lines: number;
  /** Why this process ended the part. */
  endedBecause?: string;
  startedAtMs: number;
  quickDeaths: number;
};

type SupervisorOptions = {
  stateDir: string;
  lifeSignSeconds: number;
  onRestart: (name: string) => void;
  /** Until it resolves, what the parts complain of is kept in their logs alone. */
  onWake: (suspendedForMs: number) => Promise<void>;
};

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #running = new Map<string, Running>();
  readonly #suspension = new SuspensionWatch((suspendedForMs) => this.#wake(suspendedForMs));
  #isStopping = false;
  #waking = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#suspension.start();
  }

  /**
   * Resolves when the part reports that it is ready.
   * @throws Error with what it wrote to stderr when it ends before that: a first start that fails is not repeated
   */
  async start(part: Part): Promise<void> {
    const running = this.#spawn(part, 0);
    const errors: string[] = [];
    running.child.stderr?.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
    if (!(await isReady(running))) {
      const where = `see ${this.#options.stateDir}/logs/${part.name}.log`;
      throw new Error(`The ${part.name} did not start; ${where}. ${errors.join('')}`.trim());
    }
    this.#watch(running);
    this.#watchLife(running).catch(fail);
  }

  pidOf(name: string): number | undefined {
    return this.#running.get(name)?.child.pid;
  }

  /** Ends the parts one after the other, last started first, and whatever they leave behind. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#suspension.stop();
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
    const running: Running = { part, child, exited, lines: 0, startedAtMs: Date.now(), quickDeaths };
    this.#running.set(part.name, running);
    const pids: PartPids = {};
    for (const [name, { child: other }] of this.#running) if (other.pid !== undefined) pids[name] = { pid: other.pid };
    writeParts(this.#options.stateDir, pids);
    const log = openPartLog(this.#options.stateDir, part.name, (error) => {
      warn(part.name, `its log cannot be written: ${describeFailure(error)}`);
    });
    child.once('close', () => log.close());
    const showTrouble = createTroubleFilter(part.name);
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        running.lines += 1;
        log.keep(line);
        // Before a line that a part printed because it was suspended, too.
        this.#suspension.check();
        if (!this.#isStopping && this.#waking === 0) showTrouble(line);
      });
    }
    child.on('error', (error) => log.keep(String(error)));
    return running;
  }

  #watch(running: Running): void {
    running.child.once('exit', (code, signal) => {
      if (running.child.pid !== undefined) killGroup(running.child.pid);
      const cause = running.endedBecause ?? signal ?? `exit code ${code ?? 'unknown'}`;
      if (!this.#isStopping) this.#restart(running, cause).catch(fail);
    });
  }

  async #watchLife(running: Running): Promise<void> {
    const { part, child, exited } = running;
    const { lifeSignSeconds } = this.#options;
    const ended = new AbortController();
    exited.then(() => ended.abort(), fail);
    // A part that is too busy to answer in time still logs what it does.
    const ask = async (signal: AbortSignal): Promise<void> => {
      const linesBefore = running.lines;
      try {
        await part.askForLife(child, signal);
      } catch (error) {
        if (running.lines === linesBefore) throw error;
      }
    };
    if (await isLifeless(ask, lifeSignSeconds * 1000, ended.signal)) {
      this.#end(running, `no sign of life for ${lifeSignSeconds} s`);
    }
  }

  /** With its group, since a part that hangs ends nothing itself. */
  #end(running: Running, cause: string): void {
    running.endedBecause = cause;
    if (running.child.pid !== undefined) killGroup(running.child.pid);
  }

  #wake(suspendedForMs: number): void {
    this.#waking += 1;
    this.#options
      .onWake(suspendedForMs)
      .finally(() => (this.#waking -= 1))
      .catch(fail);
  }

  async #restart({ part, child, startedAtMs, quickDeaths }: Running, cause: string): Promise<void> {
    const deaths = Date.now() - startedAtMs > steadyAfterMs ? 0 : quickDeaths + 1;
    const pauseMs = deaths <= 1 ? 0 : Math.min(longestPauseMs, firstPauseMs * 2 ** (deaths - 2));
    const when = pauseMs === 0 ? '' : ` in ${pauseMs} ms; see ${this.#options.stateDir}/logs/${part.name}.log`;
    warn(part.name, `ended (pid ${child.pid ?? 0}, ${cause}): starting it again${when}`);
    await sleep(pauseMs);
    if (this.#isStopping) return;
    const next = this.#spawn(part, deaths);
    this.#watch(next);
    say(part.name, `started again, pid ${next.child.pid ?? 0}`);
    if (await isReady(next)) {
      this.#options.onRestart(part.name);
      await this.#watchLife(next);
    } else this.#end(next, `not ready after ${readyWithinMs / 1000} s`);
  }
}

/** False when it ended before, or takes too long. */
async function isReady({ child, exited }: Running): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), readyWithinMs)));
  const first = await Promise.race([once(child, 'message'), exited, late]);
  clearTimeout(timer);
  return first !== undefined;
}
