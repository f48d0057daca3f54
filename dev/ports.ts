// Chooses the ports the parts listen on: the wished one, else (when nobody asked for exactly that one) the next free.
// Does not hold a port; the part takes it a moment later.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import type { PortWish } from './settings.ts';

const triesForNext = 50;

/**
 * @throws Error when the port was asked for by name and something else holds it.
 * `taken` collects the choices of one start, so that two parts never share one.
 */
export async function choosePort(wish: PortWish, host: string, taken: Set<number>): Promise<number> {
  const { name, port, isExplicit } = wish;
  if (isExplicit && !(await isFree(port, host))) {
    const holder = findHolder(port);
    const by = holder === undefined ? 'taken' : `taken by ${holder}`;
    throw new Error(`Port ${port} is ${by}: stop that, or choose another with ${name}=<port>`);
  }
  const last = isExplicit ? port : Math.min(65535, port + triesForNext);
  for (let candidate = port; candidate <= last; candidate += 1) {
    if (taken.has(candidate) || !(await isFree(candidate, host))) continue;
    taken.add(candidate);
    return candidate;
  }
  throw new Error(`No free port from ${port} to ${last}: choose one with ${name}=<port>`);
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}

/** "node dev/start.ts (pid 123)", where /proc tells; undefined elsewhere and for other users' processes. */
function findHolder(port: number): string | undefined {
  try {
    const inodes = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((path) => listeningInodes(path, port));
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      if (!socketsOf(pid).some((socket) => inodes.includes(socket))) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, 3).join(' ').trim();
      return `${command.slice(0, 60)} (pid ${pid})`;
    }
  } catch {
    // Not Linux: the advice stands without a name.
  }
  return undefined;
}

/** Rows of /proc/net/tcp: "sl local_address rem_address st ... inode"; st 0A is LISTEN. */
function listeningInodes(path: string, port: number): string[] {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync(path, 'utf8').trim().split('\n').slice(1);
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter((columns) => columns[3] === '0A' && columns[1]?.endsWith(wanted) === true)
    .map((columns) => `socket:[${columns[9] ?? ''}]`);
}

function socketsOf(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  } catch {
    return [];
  }
}
