// The git-ignored .dev.vars, which `wrangler dev` reads: .dev.vars.example with secrets made for this machine. An existing
// file stays as it is.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateSecret, writePrivateFile } from './secrets.ts';

/** Answers whether it wrote the file. */
export function writeDevVars(root: string): boolean {
  const path = join(root, '.dev.vars');
  if (existsSync(path)) return false;
  const example = readFileSync(join(root, '.dev.vars.example'), 'utf8');
  writePrivateFile(
    path,
    example.replaceAll(/^([A-Z_]+)=$/gm, (_, name: string) => `${name}=${generateSecret(name)}`),
  );
  return true;
}
