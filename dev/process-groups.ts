// Ends what a part leaves behind: its process group (workerd outlives a killed parent), and the groups of an earlier
// run that was killed itself. Never touches a process that was not started for that state folder.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** Kills every process of a group at once; says whether there was one. */
export function killGroup(groupId: number): boolean {
  try {
    process.kill(-groupId, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether some process of that group was started for this state folder, which its environment names. Numbers are
 * given out again, so a number alone proves nothing. Without /proc (macOS) the answer is no: better a stray process
 * than somebody else's killed.
 */
export function isGroupOf(groupId: number, stateDir: string): boolean {
  if (!existsSync('/proc/self/stat')) return false;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => groupOf(pid) === groupId && read(`/proc/${pid}/environ`).includes(`=${stateDir}`));
}

/** Whether that number is alive and its command line holds `text`. Without /proc, being alive has to do. */
export function isRunning(pid: number, text: string): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !existsSync('/proc/self/stat') || read(`/proc/${pid}/cmdline`).includes(text);
}

function groupOf(pid: string): number | undefined {
  // "pid (name) state ppid pgrp ...": the name may hold blanks and brackets, so count from the last bracket.
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ');
  return fields?.[2] === undefined ? undefined : Number(fields[2]);
}

/** Processes come and go while the folder is read. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
