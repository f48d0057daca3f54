// Resident memory of the parts, from /proc, so on Linux only; elsewhere it shows zero.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

const pageBytes = 4096;
const everyMs = 250;

export type Part = 'worker' | 'bridge' | 'broker';
/** In MiB. */
export type MemoryUse = Record<Part, { before: number; peak: number }>;

export class MemoryMeter {
  readonly #pids: Record<Part, number>;
  readonly #seen: MemoryUse;
  #timer: NodeJS.Timeout | undefined;

  constructor(pids: Record<Part, number>) {
    this.#pids = pids;
    const none = () => ({ before: 0, peak: 0 });
    this.#seen = { worker: none(), bridge: none(), broker: none() };
  }

  begin(): void {
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

  /** Of the process and everything in its group. */
  #read(part: Part): number {
    if (!existsSync('/proc/self/stat')) return 0;
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const bytes = pids.map((pid) => residentOf(Number(pid), this.#pids[part])).reduce((sum, one) => sum + one, 0);
    return Math.round(bytes / 2 ** 20);
  }
}

function residentOf(pid: number, wanted: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    if (pid !== wanted && Number(fields[2]) !== wanted) return 0;
    return Number(fields[21]) * pageBytes;
  } catch (error) {
    // The process ended while the folder was read.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return 0;
    throw error;
  }
}
