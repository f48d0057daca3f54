// Chooses the ports that the parts listen on: the wanted one, else, when it is a default, the next free one. Claims each, so
// that two starts at the same moment choose different ones: the part takes its port a moment later.
import { createServer } from 'node:net';
import { claim } from './claims.ts';
import type { Settings } from './settings.ts';
import { print } from '../terminal.ts';

const triesForNext = 50;

/** @throws Error when a port that was chosen by a setting is taken */
export async function choosePorts<Part extends keyof Settings['ports']>(
  wanted: Pick<Settings['ports'], Part>,
  host: string,
): Promise<Record<Part, number>> {
  const chosen = new Map<string, number>();
  for (const [part, { name, port, isExplicit }] of Object.entries<Settings['ports'][Part]>(wanted)) {
    const last = isExplicit ? port : Math.min(65535, port + triesForNext);
    let candidate = port;
    while ([...chosen.values()].includes(candidate) || !(await take(candidate, host))) {
      const which = isExplicit ? `Port ${port} is taken` : `No free port from ${port} to ${last}`;
      if (candidate === last) throw new Error(`${which}: choose another one with ${name}=<port>`);
      candidate += 1;
    }
    if (candidate !== port) print(`Port ${port} is taken, using ${candidate} instead (choose with ${name}=<port>)`);
    chosen.set(part, candidate);
  }
  return Object.fromEntries(chosen) as Record<Part, number>;
}

async function take(port: number, host: string): Promise<boolean> {
  return (await isFree(port, host)) && (await claim(`port-${port}`));
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
