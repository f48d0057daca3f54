// The folder STATE_DIR: made if it is missing, held by one `npm start` or server at a time, with parts.json, which names the processes.
// Knows nothing of the files that the parts keep there.
import { spawnSync } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { killGroup } from '../../rig/worker/built-worker.ts';

const leftOversEndWithinMs = 2_000;

/** Locks of this process. */
const held = new Set<string>();

const partsSchema = z.record(z.string(), z.object({ pid: z.int() }));

/** @throws Error in one line */
export function prepareStateDir(stateDir: string): void {
  try {
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    // The folder may lie anywhere in the repository: it tells git to ignore it.
    writeFileSync(join(stateDir, '.gitignore'), '*\n');
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new Error(`STATE_DIR ${stateDir} cannot be used (${code}): give a folder that can be written`, {
      cause: code,
    });
  }
}

/** Takes the folder for this process. @throws Error if another `npm start` uses it */
export async function claimStateDir(stateDir: string): Promise<void> {
  const holder = await holderOf(stateDir);
  if (holder === undefined) return;
  throw new Error(
    `Latchwork already runs with ${stateDir} (pid ${holder}): stop it, or choose STATE_DIR=<folder> (--data <folder>)`,
  );
}

/** The process that has the folder, if it is another. Otherwise nobody can start there before this process ends. */
export async function holderOf(stateDir: string): Promise<number | undefined> {
  const holder = takeLock(join(stateDir, 'start.pid'));
  if (holder !== undefined) return holder;
  await endLeftOvers(Object.values(readParts(stateDir)).map(({ pid }) => pid));
  writeParts(stateDir, {});
  return undefined;
}

export function readParts(stateDir: string): z.infer<typeof partsSchema> {
  return readJson(join(stateDir, 'parts.json'), partsSchema) ?? {};
}

export function writeParts(stateDir: string, parts: z.infer<typeof partsSchema>): void {
  writeJson(join(stateDir, 'parts.json'), parts);
}

/** undefined if there is no such file. @throws Error if it is damaged */
export function readJson<T>(path: string, schema: z.ZodType<T>): T | undefined {
  return existsSync(path) ? schema.parse(JSON.parse(readFileSync(path, 'utf8'))) : undefined;
}

/** The file is whole at all times. */
export function writeJson(path: string, content: object): void {
  writeFileSync(`${path}.part`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.part`, path);
}

/** Until this process ends. Returns the process that has the lock, or undefined if this one has it now. */
export function takeLock(path: string): number | undefined {
  // Linked when it is written: nobody finds it empty and takes it for one that was left behind.
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, String(process.pid));
  try {
    linkSync(draft, path);
    process.once('exit', () => rmSync(path, { force: true }));
    held.add(path);
    return undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const holder = Number(readFileSync(path, 'utf8'));
  // In a container each start may have the same id: a lock of this id that is not held here was left behind.
  if (holder === process.pid ? held.has(path) : isNodeRunning(holder)) return holder;
  rmSync(path, { force: true });
  return takeLock(path);
}

/** Process ids are reused: only a Node process can have a lock. Without `ps` (Windows) being alive has to do. */
function isNodeRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  const { stdout, error } = spawnSync('ps', ['-p', String(pid), '-o', 'args='], { encoding: 'utf8' });
  return error !== undefined || stdout.includes('node');
}

/** The Worker's process group may outlive a killed run: its workerd holds the port and the database. */
async function endLeftOvers(groups: number[]): Promise<void> {
  const deadlineMs = Date.now() + leftOversEndWithinMs;
  while (Date.now() < deadlineMs) {
    const { stdout, error } = spawnSync('ps', ['-Ao', 'pgid=,args='], { encoding: 'utf8' });
    if (error !== undefined) return;
    const lines = stdout.split('\n').filter((line) => line.includes('workerd'));
    const left = groups.filter((group) => lines.some((line) => parseInt(line) === group));
    if (left.length === 0) return;
    left.forEach((group) => killGroup(group));
    await sleep(50);
  }
}
