// Processor time of a group of processes, on Linux only.
import { setTimeout as sleep } from 'node:timers/promises';
import { membersOfGroup } from '../../rig/process-group.ts';

/** A tick of /proc is 10 ms on every Linux there is. */
const microsecondsPerTick = 10_000;
/** Below this share of a core for this long a group counts as resting. */
const restingShare = 0.05;
const restingForSeconds = 2;
const restWithinSeconds = 90;

/** User and system time so far. */
export function readCpuMicroseconds(groupId: number): number {
  const ticks = membersOfGroup(groupId).map(({ stat }) => Number(stat[11]) + Number(stat[12]));
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
