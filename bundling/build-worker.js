// Bundles the Worker for `main` of wrangler.toml, without what only the reference needs, and writes the reference's documents
// beside the pages that show them (build-reference.js). Wrangler runs this before each build. Plain JavaScript, because any
// version of Node may run it.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { leanLibraries } from './lean-libraries.js';
import { leanSource } from './lean-sources.js';
import { writeIfChanged } from './write-if-changed.js';

const root = fileURLToPath(new URL('..', import.meta.url));

const leanSources = {
  name: 'lean-sources',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => ({ contents: leanSource(path), loader: 'ts' })),
};

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ['src/index.ts'],
  outdir: 'bundling/worker',
  bundle: true,
  write: false,
  minify: true,
  sourcemap: 'linked',
  format: 'esm',
  target: 'es2024',
  // As wrangler resolves.
  conditions: ['workerd', 'worker', 'browser'],
  mainFields: ['module', 'main'],
  external: ['cloudflare:*', 'node:*'],
  plugins: [leanLibraries, leanSources],
  logLevel: 'warning',
  logOverride: { 'import-is-undefined': 'error' },
});
for (const { path, contents } of outputFiles) writeIfChanged(path, contents);
