// Bundles the Workers of neighbours/, which run beside the service in the same workerd. Plain esbuild, no wrangler.
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { findFreePort } from '../../rig/ports.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import type { Neighbour } from '../../rig/worker/worker-process.ts';

export async function makeNeighbour(
  name: 'bare' | 'party',
  objects: Record<string, string>,
  bindings: Record<string, string> = {},
): Promise<Neighbour> {
  const modulePath = join(makeTempDir('neighbour'), `${name}.js`);
  buildSync({
    entryPoints: [join(import.meta.dirname, 'neighbours', `${name}.ts`)],
    outfile: modulePath,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    external: ['cloudflare:workers'],
    logLevel: 'warning',
  });
  return { name: `neighbour-${name}`, modulePath, port: await findFreePort(), objects, bindings };
}
