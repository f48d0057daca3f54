// STATE_DIR/parts.json: which process is which part now; STATE_DIR/start.pid: who supervises them. Written whole or
// not at all. Also clears away what an earlier run left when it was killed.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { claim } from './claims.ts';
import { clearGroup, isRunning } from './process-groups.ts';

const leftOversTimeoutMs = 2_000;

export type PartPids = Record<string, { pid: number }>;

export function writeParts(stateDir: string, parts: PartPids): void {
  const path = join(stateDir, 'parts.json');
  writeFileSync(`${path}.new`, `${JSON.stringify(parts, null, 2)}\n`);
  renameSync(`${path}.new`, path);
}

/**
 * Takes the state folder for this process.
 * @throws Error when another `npm start` uses it
 */
export async function claimStateDir(stateDir: string): Promise<void> {
  const path = join(stateDir, 'start.pid');
  const pid = Number(readText(path));
  const isClaimed = await claim(`state-${createHash('sha256').update(stateDir).digest('hex')}`);
  if (!isClaimed || (pid > 0 && pid !== process.pid && isRunning(pid, 'dev/start.'))) {
    // Not written yet where both were started at the same moment.
    const who = pid > 0 ? ` (pid ${pid})` : '';
    throw new Error(`Latchwork already runs with ${stateDir}${who}: stop it, or choose STATE_DIR=<folder>`);
  }
  const text = readText(join(stateDir, 'parts.json'));
  const leftOvers = text === '' ? [] : Object.values(JSON.parse(text) as PartPids);
  await Promise.all(leftOvers.map((part) => clearGroup(part.pid, stateDir, leftOversTimeoutMs)));
  writeFileSync(path, String(process.pid));
  writeParts(stateDir, {});
}

export function releaseStateDir(stateDir: string): void {
  writeParts(stateDir, {});
  rmSync(join(stateDir, 'start.pid'), { force: true });
}

function readText(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
