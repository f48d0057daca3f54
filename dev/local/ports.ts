// Chooses the ports that the parts listen on: the wanted one, else, when it is a default, the next free one. Locks each, so that
// two starts at the same moment choose different ones: the part listens a moment later.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isFree } from '../../rig/ports.ts';
import { print } from '../terminal.ts';
import type { Settings } from './settings.ts';
import { takeLock } from './state-dir.ts';

const triesForNext = 50;
const locks = join(tmpdir(), 'latchwork-port-');

/** @throws Error when a port that was chosen by a setting is in use */
export async function choosePorts(wanted: Settings['ports'], host: string) {
  const chosen = new Map<string, number>();
  for (const [part, { name, port, isExplicit }] of Object.entries(wanted)) {
    const last = isExplicit ? port : Math.min(65535, port + triesForNext);
    let candidate = port;
    while (!(await isFree(candidate, host)) || takeLock(`${locks}${candidate}`) !== undefined) {
      const which = isExplicit ? `Port ${port} is taken` : `No free port from ${port} to ${last}`;
      if (candidate === last) throw new Error(`${which}: choose another one with ${name}=<port>`);
      candidate += 1;
    }
    if (candidate !== port) print(`Port ${port} is taken, using ${candidate} instead (choose with ${name}=<port>)`);
    chosen.set(part, candidate);
  }
  return Object.fromEntries(chosen) as Record<keyof Settings['ports'], number>;
}
