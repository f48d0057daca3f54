// Ends what a part leaves behind: its process group (workerd outlives a killed parent), and the groups of an earlier
// run that was killed itself. Never touches a process that was not started for that state folder.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { killGroup } from '../../rig/worker/built-worker.ts';

/**
 * Kills what still runs of a group that was started for this state folder, which its environment names, and waits for
 * its end: until then it holds ports. Process ids are reused, so an id alone proves nothing. Without /proc
 * (macOS) nothing is killed: it could be a process of somebody else.
 */
export async function clearGroup(groupId: number, stateDir: string, patienceMs: number): Promise<void> {
  if (!existsSync('/proc/self/stat')) return;
  const deadlineMs = Date.now() + patienceMs;
  while (Date.now() < deadlineMs) {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const environments = pids.filter((pid) => groupOf(pid) === groupId).map((pid) => read(`/proc/${pid}/environ`));
    // Empty once a process has begun to end, while its sockets may still be open.
    const isEnding = environments.includes('');
    const isOurs = environments.some((environment) => environment.includes(`=${stateDir}`));
    if (!isOurs && !isEnding) return;
    if (isOurs) killGroup(groupId);
    await sleep(20);
  }
}

/** Whether that number is alive and its command line holds `text`. Without /proc, being alive has to do. */
export function isRunning(pid: number, text: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  return !existsSync('/proc/self/stat') || read(`/proc/${pid}/cmdline`).includes(text);
}

function groupOf(pid: string): number | undefined {
  // "pid (name) state ppid pgrp ...": the name may hold blanks and brackets, so count from the last bracket.
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ');
  return fields?.[2] === undefined ? undefined : Number(fields[2]);
}

/** '' for a process that ended while the folder was read, or belongs to somebody else. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}
