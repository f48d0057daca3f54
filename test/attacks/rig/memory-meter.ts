// Resident memory of the parts, from /proc, so on Linux only; elsewhere it shows zero.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

const pageBytes = 4096;
const everyMs = 250;

export type Part = 'worker' | 'bridge' | 'broker';
/** In MiB. */
export type MemoryUse = Record<Part, { before: number; peak: number }>;

export class MemoryMeter {
  readonly #groups: Record<Part, number>;
  readonly #seen: MemoryUse;
  /** Looked for once: to go through all processes again and again would hold up who is timed in this thread. */
  #members: Record<Part, number[]> = { worker: [], bridge: [], broker: [] };
  #timer: NodeJS.Timeout | undefined;

  /** @param groups by the process that leads them, or is alone in one of somebody else */
  constructor(groups: Record<Part, number>) {
    this.#groups = groups;
    const none = () => ({ before: 0, peak: 0 });
    this.#seen = { worker: none(), bridge: none(), broker: none() };
  }

  begin(): void {
    const { worker, bridge, broker } = this.#groups;
    this.#members = { worker: membersOfGroup(worker), bridge: membersOfGroup(bridge), broker: membersOfGroup(broker) };
    for (const [part, seen] of Object.entries(this.#seen)) seen.before = this.#read(part as Part);
    this.#look();
    this.#timer = setInterval(() => this.#look(), everyMs);
  }

  end(): MemoryUse {
    clearInterval(this.#timer);
    this.#look();
    return this.#seen;
  }

  #look(): void {
    for (const [part, seen] of Object.entries(this.#seen)) seen.peak = Math.max(seen.peak, this.#read(part as Part));
  }

  #read(part: Part): number {
    const bytes = this.#members[part].map(residentOf).reduce((sum, one) => sum + one, 0);
    return Math.round(bytes / 2 ** 20);
  }
}

/** The process and everything in its group. */
export function membersOfGroup(leader: number): number[] {
  if (!existsSync('/proc/self/stat')) return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => pid === leader || Number(readStat(pid)?.[2]) === leader);
}

function residentOf(pid: number): number {
  return Number(readStat(pid)?.[21] ?? 0) * pageBytes;
}

/** What follows the name; undefined where the process has ended. */
function readStat(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
