// The Worker as `wrangler deploy` would upload it, in the folder `dist` of the program. Built once for a version of the sources: a server
// that starts again does not compile.
import { readdirSync, statSync } from 'node:fs';
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
  // What is written last.
  const builtAtMs = statSync(join(buildDir, 'public'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (sources.some((path) => changedAtMs(join(root, path)) > builtAtMs)) await buildWorker(buildDir);
  return buildDir;
}

/** The newest change of a file, or of any file in a folder. */
function changedAtMs(path: string): number {
  if (statSync(path).isFile()) return statSync(path).mtimeMs;
  const entries = readdirSync(path, { recursive: true, encoding: 'utf8' });
  return Math.max(...entries.map((entry) => statSync(join(path, entry)).mtimeMs));
}
