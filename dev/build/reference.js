// Writes the reference's documents for public/, from where the Worker serves them (src/routes/reference.ts): OpenAPI from the
// routes, AsyncAPI from the schemas of messages. Wrangler runs this before each build, and the tests inside workerd before they
// start. Plain JavaScript, because any version of Node may run it.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { writeIfChanged } from './write-if-changed.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The routes are made, and never called. */
const withoutPlatform = {
  name: 'without-platform',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, namespace: 'platform' }));
    onLoad({ filter: /.*/, namespace: 'platform' }, () => ({
      contents: 'export class DurableObject {} export const waitUntil = () => undefined;',
    }));
  },
};

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ['dev/build/reference-documents.js'],
  bundle: true,
  write: false,
  format: 'esm',
  target: 'es2022',
  platform: 'node',
  plugins: [withoutPlatform],
  logLevel: 'warning',
});
const [{ text }] = outputFiles;
const { documents } = await import(`data:text/javascript;base64,${Buffer.from(text).toString('base64')}`);
for (const [name, document] of Object.entries(documents)) {
  writeIfChanged(`${root}public/reference/${name}.json`, JSON.stringify(document));
}
