// Bundles the console for public/, from where it is served. Wrangler runs this before each build (wrangler.toml, [build]).
// Plain JavaScript, because any version of Node may run it.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const root = fileURLToPath(new URL('../..', import.meta.url));

const { outputFiles } = buildSync({
  absWorkingDir: root,
  entryPoints: { main: 'console/src/main.tsx', mqtt: 'console/src/switch/mqtt.ts' },
  splitting: true,
  outdir: 'public/console',
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  alias: { '@latchwork/client': `${root}client/src/index.ts` },
  logLevel: 'warning',
});
mkdirSync(`${root}public/console`, { recursive: true });
for (const { path, contents } of outputFiles) {
  // A running Worker reads these files: do not rewrite one that is up to date.
  if (!existsSync(path) || !readFileSync(path).equals(contents)) writeFileSync(path, contents);
}

// Parts of earlier builds: a page that is open somewhere may still ask for one.
const keptForMs = 24 * 60 * 60_000;
const folder = `${root}public/console/`;
const written = new Set(outputFiles.map(({ path }) => basename(path)));
for (const name of readdirSync(folder).filter((one) => one.endsWith('.js') && !written.has(one))) {
  if (Date.now() - statSync(folder + name).mtimeMs > keptForMs) unlinkSync(folder + name);
}
