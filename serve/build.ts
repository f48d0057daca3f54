// The Worker as `wrangler deploy` would upload it, in the folder `dist` of the program. Built once for a version of the sources: a server
// that starts again does not compile.
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildWorker } from '../rig/worker/built-worker.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = [
  'src',
  'client/src',
  'console/src',
  'dev/build',
  'dev/reference',
  'wrangler.toml',
  'package-lock.json',
];

/** The folder of the build. @throws Error with wrangler's own output if the Worker does not build */
export async function prepareBuild(): Promise<string> {
  const buildDir = join(root, 'dist/worker');
  const builtAtMs = statSync(buildDir, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (builtAtMs >= Math.max(...sources.map((path) => changedAtMs(join(root, path))))) return buildDir;
  const [next, former] = [`${buildDir}-next-${process.pid}`, `${buildDir}-former-${process.pid}`];
  try {
    await buildWorker(next);
    // What a running server has open stays whole.
    mkdirSync(buildDir, { recursive: true });
    renameSync(buildDir, former);
    renameSync(next, buildDir);
  } finally {
    for (const path of [next, former]) rmSync(path, { recursive: true, force: true });
  }
  return buildDir;
}

/** The newest change of a file, or of any file in a folder. */
function changedAtMs(path: string): number {
  if (statSync(path).isFile()) return statSync(path).mtimeMs;
  const entries = readdirSync(path, { recursive: true, encoding: 'utf8' });
  return Math.max(...entries.map((entry) => statSync(join(path, entry)).mtimeMs));
}
