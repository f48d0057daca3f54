// Processor time and memory of processes. Read from /proc, so on Linux only.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A tick of /proc is 10 ms on every Linux there is. */
const secondsPerTick = 0.01;
const bytesPerPage = 4_096;
/** Below this share of a core for this long a process counts as resting. */
const restingShare = 0.05;
const restingForSeconds = 2;
const restWithinSeconds = 90;

export type Process = { pid: number; isGroup: boolean };

/** User and system time so far. */
export function readCpuMicroseconds(processes: readonly Process[]): number {
  return processes.flatMap(readStats).reduce((sum, { seconds }) => sum + seconds * 1e6, 0);
}

export function readResidentBytes(process: Process): number {
  return readStats(process).reduce((sum, { residentBytes }) => sum + residentBytes, 0);
}

/** Waits until a process has nothing left to do, at most 90 s. */
export async function untilResting(process: Process): Promise<void> {
  let quietSeconds = 0;
  for (let waited = 0; waited < restWithinSeconds && quietSeconds < restingForSeconds; waited += 1) {
    const before = readCpuMicroseconds([process]);
    await sleep(1000);
    const share = (readCpuMicroseconds([process]) - before) / 1e6;
    quietSeconds = share < restingShare ? quietSeconds + 1 : 0;
  }
}

type Stat = { pid: number; group: number; seconds: number; residentBytes: number };

function readStats({ pid, isGroup }: Process): Stat[] {
  if (!existsSync('/proc/self/stat')) return [];
  if (!isGroup) return readStat(pid);
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((name) => readStat(Number(name))).filter(({ group }) => group === pid);
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
