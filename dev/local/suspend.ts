// Suspends process groups while something copies their files, which are then those of one moment. Nothing else of this process
// runs meanwhile. Does not know what the processes are.
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { membersOfGroup, readIfThere } from '../../rig/process-group.ts';
import { killGroup } from '../../rig/worker/built-worker.ts';

/** Devices take a longer silence for a lost connection. */
const maxSuspensionMs = 10_000;

/** Returns for how many milliseconds. @throws Error if that was too long: a group may have gone on before the end of `work` */
export function whileSuspended(groups: number[], work: () => void): number {
  const startedAtMs = performance.now();
  // Lets the groups go on if this process is killed.
  const guardScript = `sleep ${maxSuspensionMs / 1000}; kill -s CONT -- ${groups.map((group) => -group).join(' ')}`;
  const guard = spawn('sh', ['-c', guardScript], { detached: true, stdio: 'ignore' });
  try {
    groups.forEach((group) => killGroup(group, 'SIGSTOP'));
    while (!areSuspended(groups) && performance.now() - startedAtMs < maxSuspensionMs);
    work();
  } finally {
    groups.forEach((group) => killGroup(group, 'SIGCONT'));
    if (guard.pid !== undefined) killGroup(guard.pid);
  }
  const suspendedMs = Math.round(performance.now() - startedAtMs);
  if (suspendedMs < maxSuspensionMs) return suspendedMs;
  throw new Error(
    `The parts would have to stand still for more than ${maxSuspensionMs / 1000} s: stop the server first`,
  );
}

/** A signal stops the threads one after the other, and a write that is under way ends first. */
function areSuspended(groups: number[]): boolean {
  const threads = groups.flatMap(membersOfGroup).flatMap(({ pid }) => globSync(`/proc/${pid}/task/*/stat`));
  return threads.every((file) => /\) [TZX] |^$/.test(readIfThere(file)));
}
