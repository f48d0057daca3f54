// The one place that picks loopback ports for parts that run as processes of their own.
import { randomInt } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { eventually } from './changes.ts';
import { tempRootVariable } from './temp-dirs.ts';

// Below the range from which systems take the ports of outgoing connections. An outgoing connection could take a port between the
// check and its use.
const lowest = 10_000;
const highest = 32_000;
const chosen = new Set<number>();

/**
 * Free when asked, and given once in a test run: a part that is stopped finds its port free when it starts again. Without
 * the folder of a run, another process may find the same, which is unlikely.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, highest);
    if (chosen.has(port) || !(await isFree(port)) || !claim(port)) continue;
    chosen.add(port);
    return port;
  }
}

/** False if another process of the same run has it. */
function claim(port: number): boolean {
  const root = process.env[tempRootVariable];
  if (root === undefined) return true;
  try {
    closeSync(openSync(join(root, `port-${port}`), 'wx'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

export function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}

/** @throws Error if nothing listens in time */
export function untilListening(port: number, timeoutMs = 90_000): Promise<void> {
  return eventually(`a listener on port ${port}`, () => isListening(port), timeoutMs);
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (isOpen: boolean): void => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
