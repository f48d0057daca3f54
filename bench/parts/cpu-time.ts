// Processor time of a group of processes. Read from /proc, so on Linux only.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A tick of /proc is 10 ms on every Linux there is. */
const microsecondsPerTick = 10_000;
/** Below this share of a core for this long a group counts as resting. */
const restingShare = 0.05;
const restingForSeconds = 2;
const restWithinSeconds = 90;

/** User and system time so far. */
export function readCpuMicroseconds(groupId: number): number {
  if (!existsSync('/proc/self/stat')) return 0;
  const ticks = globSync('/proc/[0-9]*/stat').map((path) => readTicks(path, groupId));
  return ticks.reduce((sum, count) => sum + count, 0) * microsecondsPerTick;
}

/** Waits until the group has nothing left to do, at most 90 s. */
export async function untilResting(groupId: number): Promise<void> {
  let quietSeconds = 0;
  for (let waited = 0; waited < restWithinSeconds && quietSeconds < restingForSeconds; waited += 1) {
    const before = readCpuMicroseconds(groupId);
    await sleep(1000);
    const share = (readCpuMicroseconds(groupId) - before) / 1e6;
    quietSeconds = share < restingShare ? quietSeconds + 1 : 0;
  }
}

/** 0 for a process of another group. */
function readTicks(path: string, groupId: number): number {
  try {
    // The name in brackets may hold blanks: fields are counted from the last bracket.
    const fields = readFileSync(path, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return Number(fields[2]) === groupId ? Number(fields[11]) + Number(fields[12]) : 0;
  } catch (error) {
    // The process ended while the folder was read.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return 0;
    throw error;
  }
}
