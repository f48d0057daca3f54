// Processor time of the parts, which explains a figure, and their memory. Read from /proc, so on Linux only.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Measure } from './results.ts';

/** A tick of /proc is 10 ms on every Linux there is. */
const secondsPerTick = 0.01;
const bytesPerPage = 4_096;

type Process = { pid: number; isGroup: boolean };
/** Collects what the parts of one side spend on a message or a command, round after round. */
export class CpuMeter {
  readonly #processes: Record<string, Process>;
  readonly #perRound = new Map<string, number[]>();

  constructor(processes: Record<string, Process>) {
    this.#processes = processes;
  }

  /** Runs `work` and divides the processor time spent meanwhile by `count`. */
  async during<T>(count: number, work: () => Promise<T>): Promise<T> {
    const before = readCpuSeconds(this.#processes);
    const result = await work();
    const after = readCpuSeconds(this.#processes);
    for (const [part, seconds] of Object.entries(after)) {
      const spent = ((seconds - (before[part] ?? 0)) * 1e6) / count;
      if (seconds > 0) this.#perRound.set(part, [...(this.#perRound.get(part) ?? []), spent]);
    }
    return result;
  }

  /** Drops what was measured so far. */
  reset(): void {
    this.#perRound.clear();
  }

  /** Of all parts together but one. */
  totalPerRound(without: string): number[] {
    const parts = [...this.#perRound].filter(([part]) => part !== without).map(([, perRound]) => perRound);
    return (parts[0] ?? []).map((_, round) => parts.reduce((sum, perRound) => sum + (perRound[round] ?? 0), 0));
  }

  measures(unit: string): Measure[] {
    return [...this.#perRound].map(([part, perRound]) => ({ name: `  processor time, ${part}`, unit, perRound }));
  }
}

/** Below this share of a core for this long a process does nothing worth mentioning. */
const restingShare = 0.05;
const restingForSeconds = 2;
const restWithinSeconds = 90;

type Stat = { pid: number; group: number; seconds: number; residentBytes: number };

/** Seconds so far, user and system, by the names given. */
function readCpuSeconds(processes: Record<string, Process>): Record<string, number> {
  const stats = readStats();
  return Object.fromEntries(
    Object.entries(processes).map(([name, { pid, isGroup }]) => {
      const mine = stats.filter((stat) => (isGroup ? stat.group === pid : stat.pid === pid));
      return [name, mine.reduce((sum, { seconds }) => sum + seconds, 0)];
    }),
  );
}

/** Memory that a process, or its group, holds at the moment. */
export function readResidentBytes({ pid, isGroup }: Process): number {
  const mine = readStats().filter((stat) => (isGroup ? stat.group === pid : stat.pid === pid));
  return mine.reduce((sum, { residentBytes }) => sum + residentBytes, 0);
}

/** Waits until a process has nothing left to do, and no longer than it makes sense. */
export async function untilResting(process: Process): Promise<void> {
  let quietSeconds = 0;
  for (let waited = 0; waited < restWithinSeconds && quietSeconds < restingForSeconds; waited += 1) {
    const before = readCpuSeconds({ process });
    await sleep(1000);
    const spent = (readCpuSeconds({ process })['process'] ?? 0) - (before['process'] ?? 0);
    quietSeconds = spent < restingShare ? quietSeconds + 1 : 0;
  }
}

function readStats(): Stat[] {
  if (!existsSync('/proc/self/stat')) return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((name) => readStat(Number(name)));
}

function readStat(pid: number): Stat[] {
  try {
    // The name in brackets may hold blanks: fields are counted from the last bracket.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    const ticks = Number(fields[11]) + Number(fields[12]);
    const residentBytes = Number(fields[21]) * bytesPerPage;
    return [{ pid, group: Number(fields[2]), seconds: ticks * secondsPerTick, residentBytes }];
  } catch (error) {
    // The process ended while the folder was read.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
