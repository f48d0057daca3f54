// Installs the packages of the Matter bridge, which are no part of `npm ci` in the root because they would double its files. Runs
// once before the tests that need them, and before the check.
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../matter-bridge', import.meta.url));

export default function installMatterPackages(): void {
  const isAtMs = (path: string) => statSync(`${folder}/${path}`, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  // npm writes it last.
  if (isAtMs('node_modules/.package-lock.json') >= isAtMs('package-lock.json')) return;
  execFileSync('npm', ['ci'], { cwd: folder, stdio: 'inherit' });
}
