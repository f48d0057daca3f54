// The Worker as `wrangler deploy` would upload it, in the folder `dist` of the program. Built once for a version of the sources: a server
// that starts again does not compile.
import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { buildWorker } from '../rig/worker/built-worker.ts';
import { programRoot } from './data.ts';

const sources = ['{src,client/src,console/src,dev/build,dev/reference}/**', 'wrangler.toml', 'package-lock.json'];

/** The folder of the build. @throws Error with wrangler's own output if the Worker does not build */
export async function prepareBuild(): Promise<string> {
  const buildDir = join(programRoot, 'dist/worker');
  // What is written last.
  const builtAtMs = statSync(join(buildDir, 'public'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const changedAtMs = globSync(sources, { cwd: programRoot }).map((path) => statSync(join(programRoot, path)).mtimeMs);
  if (Math.max(...changedAtMs) > builtAtMs) await buildWorker(buildDir);
  return buildDir;
}
