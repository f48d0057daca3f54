// Writes a built file in one step, and not at all if it is up to date. A running Worker or another build may be reading it.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Not beside the written files: another build may list them, and would then miss one. */
const unfinished = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url));

export function writeIfChanged(path, contents) {
  const bytes = Buffer.from(contents);
  if (existsSync(path) && readFileSync(path).equals(bytes)) return;
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(unfinished, { recursive: true });
  const part = join(unfinished, `${basename(path)}.${process.pid}`);
  writeFileSync(part, bytes);
  renameSync(part, path);
}
