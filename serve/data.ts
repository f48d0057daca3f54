// Which files in the folder of a server are its data, and which program wrote them. Copies and replaces them as a whole. The
// caller sees to it that nobody writes meanwhile.
import { constants, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
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

export function copyData(dataDir: string, target: string): void {
  mkdirSync(target, { recursive: true, mode: 0o700 });
  for (const member of members.filter((name) => existsSync(join(dataDir, name)))) {
    cpSync(join(dataDir, member), join(target, member), { recursive: true, mode: constants.COPYFILE_FICLONE });
  }
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
