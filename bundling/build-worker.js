// Bundles the Worker for `main` of wrangler.toml, without what only the reference needs, and writes the reference's documents
// beside the pages that show them (build-reference.js). Wrangler runs this before each build. Plain JavaScript, because any
// version of Node may run it.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { minifySync } from 'rolldown/utils';
import { leanLibraries } from './lean-libraries.js';
import { leanSource } from './lean-sources.js';
import { writeIfChanged } from '../dev/build/write-if-changed.js';

const root = fileURLToPath(new URL('..', import.meta.url));

const target = 'es2024';

const leanSources = {
  name: 'lean-sources',
  setup: ({ onLoad }) => {
    onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => ({ contents: leanSource(path), loader: 'ts' }));
    onLoad({ filter: /[\\/]migrations[\\/]meta[\\/]_journal\.json$/ }, ({ path }) => {
      const { entries } = JSON.parse(readFileSync(path, 'utf8'));
      return { contents: JSON.stringify({ entries: entries.map(({ tag }) => ({ tag })) }), loader: 'json' };
    });
  },
};

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ['src/index.ts'],
  outdir: 'bundling/worker',
  bundle: true,
  write: false,
  minify: true,
  sourcemap: 'external',
  format: 'esm',
  target,
  // As wrangler resolves.
  conditions: ['workerd', 'worker', 'browser'],
  mainFields: ['module', 'main'],
  external: ['cloudflare:*', 'node:*'],
  plugins: [leanLibraries, leanSources],
  logLevel: 'warning',
  logOverride: { 'import-is-undefined': 'error' },
});
const textOf = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text;
// Names within each function begin anew, which compresses by 3 % better than esbuild's.
const { code, map, errors } = minifySync('index.js', textOf('.js'), {
  module: true,
  compress: { target },
  mangle: { toplevel: true },
  inputMap: JSON.parse(textOf('.js.map')),
  sourcemap: true,
});
if (errors.length > 0) throw new Error(`the bundle cannot be minified: ${errors[0].message}`);
const [foreign] = /.{0,40}[^\0-\x7f]/.exec(code) ?? [];
if (foreign !== undefined) {
  throw new Error(`one character above ASCII makes V8 read the whole bundle as two bytes a character: ${foreign}`);
}
writeIfChanged(`${root}bundling/worker/index.js.map`, JSON.stringify(map));
writeIfChanged(`${root}bundling/worker/index.js`, `${code}\n//# sourceMappingURL=index.js.map\n`);
