// Bundles the console for public/, from where it is served, and copies Swagger UI beside the pages under /docs, which need no third party
// then. Wrangler runs this before each build (wrangler.toml, [build]). Plain JavaScript, because any version of Node may run it.
import { readdirSync, readFileSync, statSync, unlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { writeIfChanged } from './write-if-changed.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

const options = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  alias: { '@latchwork/client': `${root}client/src/index.ts` },
  logLevel: 'warning',
};
const { outputFiles } = buildSync({
  ...options,
  entryPoints: {
    main: 'console/src/main.tsx',
    mqtt: 'console/src/switch/mqtt.ts',
    charts: 'console/src/history/charts.css',
    waves: 'console/src/firmware/waves.css',
  },
  splitting: true,
  outdir: 'public/console',
});
// Beside the page: a service worker is for the pages of its own folder.
const worker = { entryPoints: { sw: 'console/src/notices/service-worker.ts' }, outdir: 'public', format: 'iife' };
const { outputFiles: workerFiles } = buildSync({ ...options, ...worker });
for (const { path, contents } of [...outputFiles, ...workerFiles]) writeIfChanged(path, contents);

// Parts of earlier builds: a page that is open somewhere may still ask for one.
const keptForMs = 24 * 60 * 60_000;
const folder = `${root}public/console/`;
const written = new Set(outputFiles.map(({ path }) => basename(path)));
for (const name of readdirSync(folder).filter((file) => file.endsWith('.js') && !written.has(file))) {
  if (Date.now() - statSync(folder + name).mtimeMs > keptForMs) unlinkSync(folder + name);
}

const swagger = 'swagger-ui-bundle.js';
for (const name of [swagger, `${swagger}.LICENSE.txt`, 'swagger-ui.css', 'LICENSE', 'NOTICE']) {
  const from = new URL(name, import.meta.resolve('swagger-ui-dist/package.json'));
  writeIfChanged(`${root}public/docs/swagger-ui/${name}`, readFileSync(from));
}
