// Keeps the parts running. It starts them, starts a part again that ended, hands on what they print, and stops them in
// order. Each part leads its own process group, so that Ctrl-C reaches the supervisor alone and nothing a part
// started survives it. Knows parts by name and command only.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Part } from '../../rig/services/parts.ts';
import { killGroup } from '../../rig/worker/built-worker.ts';
import { fail } from '../terminal.ts';
import { writeParts } from './state-dir.ts';

/** Before a part is started again: one that cannot run does not take the processor. */
const pauseMs = 1_000;
/** What each part gets to end by itself; three of them have to fit in three seconds. */
const localPatienceMs = 800;

type Running = { part: Part; child: ChildProcess; exited: Promise<unknown> };

/** Where the lines of the parts go, and what the supervisor says of them. */
export type Output = {
  /** Called at each start of the part; the answer takes its lines. */
  open: (part: string) => (line: string) => void;
  say: (part: string, text: string) => void;
  warn: (part: string, text: string) => void;
  /** Where a person finds the lines. */
  nameOf: (part: string) => string;
};

export type Supervisor = ReturnType<typeof createSupervisor>;

export function createSupervisor(stateDir: string, output: Output, patienceMs = localPatienceMs) {
  const parts = new Map<string, Running>();
  let isStopping = false;
  return { start, stop, killAll, pidOf: (name: string) => parts.get(name)?.child.pid };

  /**
   * Resolves when the part reports that it is ready.
   * @throws Error with what it wrote to stderr when it ends before that: a first start that fails is not repeated
   */
  async function start(part: Part): Promise<void> {
    const running = spawn(part);
    const errors: string[] = [];
    running.child.stderr?.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
    const ready = once(running.child, 'message').then(() => true);
    if (!(await Promise.race([ready, running.exited.then(() => false)]))) {
      throw new Error(`The ${part.name} did not start; see ${output.nameOf(part.name)}. ${errors.join('')}`.trim());
    }
    watch(running);
  }

  /** Ends the parts one after the other, the last started first, and all that they leave behind. */
  async function stop(): Promise<void> {
    isStopping = true;
    for (const { child, exited } of [...parts.values()].reverse()) {
      // Every part ends with its parent; a signal would make Miniflare kill workerd at once (worker-process.ts).
      if (child.connected) child.disconnect();
      await Promise.race([exited, sleep(patienceMs)]);
    }
    killAll();
    writeParts(stateDir, {});
  }

  /** Kills all parts at once; also called when this process ends for another reason. */
  function killAll(): void {
    isStopping = true;
    for (const { child } of parts.values()) if (child.pid !== undefined) killGroup(child.pid);
  }

  function spawn(part: Part): Running {
    const child = part.spawn();
    const running = { part, child, exited: once(child, 'exit') };
    parts.set(part.name, running);
    const pids = [...parts].map(([name, { child }]) => [name, { pid: child.pid ?? 0 }] as const);
    writeParts(stateDir, Object.fromEntries(pids));
    const take = output.open(part.name);
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', take);
    }
    return running;
  }

  function watch(running: Running): void {
    running.child.once('exit', (code, signal) => {
      if (running.child.pid !== undefined) killGroup(running.child.pid);
      if (!isStopping) restart(running, signal ?? `exit code ${code ?? 'unknown'}`).catch(fail);
    });
  }

  async function restart({ part, child }: Running, cause: string): Promise<void> {
    output.warn(
      part.name,
      `ended (pid ${child.pid ?? 0}, ${cause}): starting it again; see ${output.nameOf(part.name)}`,
    );
    await sleep(pauseMs);
    if (isStopping) return;
    const next = spawn(part);
    watch(next);
    output.say(part.name, `started again, pid ${next.child.pid ?? 0}`);
  }
}
