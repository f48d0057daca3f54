// `serve backup` and `serve restore`: all data of a server in one file, as they were at one moment. A backup suspends the parts of
// a running server while it copies. A restore deletes nothing.
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { holderOf, prepareStateDir, readJson, readParts, takeLock, writeJson } from '../dev/local/state-dir.ts';
import { whileSuspended } from '../dev/local/suspend.ts';
import * as data from './data.ts';
import { ProblemsError } from './settings.ts';

/** In each backup. Beside the data it means that records and objects are to be compared. */
const markName = 'restored.json';
const markSchema = z.object({ takenAt: z.string(), devices: z.int() });

/** `to`: a new file, or a folder, in which the file is named by the time and the newest `keep` stay. Returns what came of it. */
export async function backUp(dataDir: string, to: string, keep: number | undefined): Promise<string> {
  const takenAt = new Date().toISOString();
  const isFolder = fs.statSync(to, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder && keep !== undefined) throw new ProblemsError(`--keep needs a folder, and ${to} is none`);
  const file = isFolder ? join(resolve(to), `latchwork-${nameOf(takenAt)}.tar.gz`) : resolve(to);
  if (fs.existsSync(file)) throw new ProblemsError(`${file} exists already`);
  if (takeLock(join(dataDir, 'backup.pid')) !== undefined) throw new ProblemsError('another backup runs');
  const copy = join(dataDir, 'backup-draft');
  try {
    const suspendedMs = await copyAtOneMoment(dataDir, copy);
    let devices: number | undefined;
    data.withDatabases(copy, (database, isD1, name) => {
      const verdict = database.prepare('PRAGMA quick_check').get()?.['quick_check'];
      if (verdict !== 'ok') throw new Error(`${name} is damaged, so there is no backup: ${String(verdict)}`);
      if (isD1) devices = Number(database.prepare('SELECT count(*) AS count FROM devices').get()?.['count']);
    });
    if (devices === undefined) throw new ProblemsError(`${dataDir} has no database yet: start the server once`);
    writeJson(join(copy, markName), { takenAt, devices } satisfies z.infer<typeof markSchema>);
    pack(copy, file);
    if (isFolder && keep !== undefined) removeOldest(to, keep);
    return `${file} has ${devices} devices. The parts stood still for ${suspendedMs} ms.`;
  } finally {
    for (const draft of [copy, packedOf(copy)]) fs.rmSync(draft, { recursive: true, force: true });
  }
}

const packedOf = (copy: string): string => `${copy}.tar`;

/** Resolves with the milliseconds for which the parts stood still. */
async function copyAtOneMoment(dataDir: string, copy: string): Promise<number> {
  const isRunning = (await holderOf(dataDir)) !== undefined;
  const parts = readParts(dataDir);
  const groups = Object.values(parts).map(({ pid }) => pid);
  const suspendedMs = whileSuspended(groups, () => data.packData(dataDir, packedOf(copy)));
  if (isRunning && (groups.length === 0 || JSON.stringify(readParts(dataDir)) !== JSON.stringify(parts)))
    throw new Error('A part of the server started meanwhile: try again');
  data.unpackData(packedOf(copy), copy);
  return suspendedMs;
}

function pack(copy: string, file: string): void {
  const draft = `${file}.part`;
  fs.rmSync(draft, { force: true });
  data.runTar(['-cz', '-C', copy, '.'], draft);
  fs.writeFileSync(draft, '', { flag: 'a', flush: true });
  fs.renameSync(draft, file);
}

function removeOldest(folder: string, keep: number): void {
  const backups = fs.readdirSync(folder).filter((name) => /^latchwork-\d{8}T\d+Z\.tar\.gz$/.test(name));
  for (const name of backups.sort().slice(0, -keep)) fs.rmSync(join(folder, name));
}

/** @param isForced moves data that are there aside. Returns what came of it */
export async function restore(dataDir: string, file: string, isForced: boolean): Promise<string> {
  prepareStateDir(dataDir);
  if ((await holderOf(dataDir)) !== undefined) throw new ProblemsError(`stop the server with ${dataDir} first`);
  const hadData = data.hasData(dataDir);
  if (hadData && !isForced) throw new ProblemsError(`${dataDir} has data: --force moves them aside`);
  const unpacked = join(dataDir, 'restore-draft');
  try {
    data.unpackData(file, unpacked);
    const version = data.readVersion(unpacked);
    const mark = readJson(join(unpacked, markName), markSchema);
    if (version === undefined || mark === undefined) throw new Error(`${file} is no backup of Latchwork`);
    if (data.isNewer(version))
      throw new ProblemsError(`Latchwork ${version.program} wrote ${file}: restore it with that`);
    const aside = join(dataDir, `replaced-${nameOf(new Date().toISOString())}`);
    // An upgrade that was cut off is of no account for these data.
    fs.rmSync(join(dataDir, data.upgradeFile), { force: true });
    data.replaceData(dataDir, unpacked, aside);
    if (!hadData) fs.rmdirSync(aside);
    return `${dataDir} has the data of ${mark.takenAt}${hadData ? `, and ${aside} those from before` : ''}. Start the server.`;
  } finally {
    fs.rmSync(unpacked, { recursive: true, force: true });
  }
}

/** After a restore: compares all records with their objects, once. Returns what came of it. */
export async function reconcileRestored(dataDir: string, url: string, secret: string): Promise<string | undefined> {
  const mark = join(dataDir, markName);
  if (!fs.existsSync(mark)) return undefined;
  const command = [join(data.programRoot, 'dev/operator.ts'), 'reconcile', '--url', url];
  const env = { ...process.env, OPERATOR_SECRET: secret };
  const { stdout } = await promisify(execFile)(process.execPath, command, { env });
  fs.rmSync(mark);
  return stdout.trim().split('\n').slice(-2).join(' ');
}

function nameOf(time: string): string {
  return time.replaceAll(/[-:.]/g, '');
}
