// Chooses the ports that the parts listen on: the wanted one, else, when it is a default, the next free one. Holds no
// port: the part takes it a moment later.
import { createServer } from 'node:net';
import type { WantedPort } from './settings.ts';

const triesForNext = 50;

/**
 * @throws Error when the port was chosen by a setting and is taken.
 * `taken` collects the choices of one start, so that two parts never share one.
 */
export async function choosePort(wanted: WantedPort, host: string, taken: Set<number>): Promise<number> {
  const { name, port, isExplicit } = wanted;
  const last = isExplicit ? port : Math.min(65535, port + triesForNext);
  for (let candidate = port; candidate <= last; candidate += 1) {
    if (taken.has(candidate) || !(await isFree(candidate, host))) continue;
    taken.add(candidate);
    return candidate;
  }
  const which = isExplicit ? `Port ${port} is taken` : `No free port from ${port} to ${last}`;
  throw new Error(`${which}: choose another one with ${name}=<port>`);
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
