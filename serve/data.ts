// Which files in the folder of a server are its data, and which program wrote them. Copies and replaces them as a whole. The
// caller sees to it that nobody writes meanwhile.
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { readJson } from '../dev/local/state-dir.ts';

/** Nothing runs without settings: they come last and go first. */
const members = ['worker', 'spool', 'tls', 'secrets.env', 'version.json', 'restored.json', 'settings.env'];
export const upgradeFile = 'upgrade.json';
export const programRoot = join(import.meta.dirname, '..');
/** Tokens and objects know users, products and devices by numbers. Those given out after the copy must not come again. */
const numbersAhead = 1_000_000;

/** `folder`: of the program. `migration`: the newest that it applies. */
const versionSchema = z.object({ program: z.string(), folder: z.string(), migration: z.string() });
type Version = z.infer<typeof versionSchema>;

export function ownVersion(): Version {
  const { version } = JSON.parse(readFileSync(join(programRoot, 'package.json'), 'utf8')) as { version: string };
  return { program: version, folder: basename(programRoot), migration: listMigrations().at(-1) ?? '' };
}

export function isNewer({ program, migration }: Version): boolean {
  const isKnown = listMigrations().includes(migration);
  return !isKnown || program.localeCompare(ownVersion().program, 'en', { numeric: true }) > 0;
}

/** undefined: no program ran with these data yet. */
export function readVersion(dataDir: string): Version | undefined {
  return readJson(join(dataDir, 'version.json'), versionSchema);
}

export function hasData(dataDir: string): boolean {
  return members.some((member) => existsSync(join(dataDir, member)));
}

/** In one file, which is faster than a copy of thousands. SQLite makes its shared memory (`-shm`) again. */
export function packData(dataDir: string, file: string): void {
  const present = members.filter((name) => existsSync(join(dataDir, name)));
  runTar(['-c', '--exclude=*-shm', '-C', dataDir, ...present], file);
}

/** @throws Error with what tar says, also of a damaged file: gzip has a checksum */
export function unpackData(file: string, target: string): void {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true, mode: 0o700 });
  runTar(['-x', '--no-same-owner', '-f', resolve(file), '-C', target]);
}

/** @param file for what it writes, mode 0600 */
export function runTar(options: string[], file?: string): void {
  const output = file === undefined ? 'ignore' : openSync(file, 'w', 0o600);
  const { status, stderr, error } = spawnSync('tar', options, { stdio: ['ignore', output, 'pipe'], encoding: 'utf8' });
  if (typeof output === 'number') closeSync(output);
  if (status !== 0) throw new Error(`tar: ${error?.message ?? stderr.trim()}`);
}

/** Moves the data to `aside`, and those of `source` in their place. If it was cut off, it goes on. */
export function replaceData(dataDir: string, source: string, aside: string): void {
  const draft = `${aside}.part`;
  if (!existsSync(aside)) {
    mkdirSync(draft, { recursive: true, mode: 0o700 });
    for (const member of members.toReversed()) moveIfThere(join(dataDir, member), join(draft, member));
    renameSync(draft, aside);
  }
  withDatabases(source, (database, isD1) => {
    const names = `('users', 'products', 'devices')`;
    if (isD1) database.exec(`UPDATE sqlite_sequence SET seq = seq + ${numbersAhead} WHERE name IN ${names}`);
  });
  for (const member of members) moveIfThere(join(source, member), join(dataDir, member));
}

/** Opens each SQLite file below the folder, which brings its write-ahead log into it. */
export function withDatabases(
  folder: string,
  use: (database: DatabaseSync, isD1: boolean, file: string) => void,
): void {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('.sqlite'))) {
    const database = new DatabaseSync(join(folder, file));
    use(database, /D1DatabaseObject\/[0-9a-f]{64}\.sqlite$/.test(file), file);
    database.close();
  }
}

function listMigrations(): string[] {
  const names = readdirSync(join(programRoot, 'migrations')).filter((name) => name.endsWith('.sql'));
  return names.sort();
}

function moveIfThere(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to);
}
