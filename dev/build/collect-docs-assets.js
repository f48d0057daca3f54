// Copies Swagger UI next to the pages under /docs, so that the Worker serves it without a third party. Wrangler runs this
// before each build (wrangler.toml, [build]). Plain JavaScript, because any version of Node may run it.
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';

const from = new URL('../../node_modules/swagger-ui-dist/', import.meta.url);
const to = new URL('../../public/docs/swagger-ui/', import.meta.url);

mkdirSync(to, { recursive: true });
for (const name of [
  'swagger-ui-bundle.js',
  'swagger-ui-bundle.js.LICENSE.txt',
  'swagger-ui.css',
  'LICENSE',
  'NOTICE',
]) {
  // A running Worker reads these files: do not rewrite one that is up to date.
  if (!isSame(new URL(name, from), new URL(name, to))) copyFileSync(new URL(name, from), new URL(name, to));
}

function isSame(one, other) {
  return existsSync(other) && readFileSync(one).equals(readFileSync(other));
}
