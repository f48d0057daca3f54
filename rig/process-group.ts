// The processes of a group and what they use, from /proc (proc(5)), so on Linux only; elsewhere there is none.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** `stat`: the fields of /proc/pid/stat behind the name. */
type Member = { pid: number; name: string; stat: string[] };

export function membersOfGroup(groupId: number): Member[] {
  if (!existsSync('/proc/self/stat')) return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    // The name in brackets may hold blanks and brackets.
    const [, name = '', rest = ''] = /\((.*)\) (.*)/.exec(readIfThere(`/proc/${pid}/stat`)) ?? [];
    const stat = rest.split(' ');
    return Number(stat[2]) === groupId ? [{ pid: Number(pid), name, stat }] : [];
  });
}

/** Empty if the process has ended. */
export function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}
