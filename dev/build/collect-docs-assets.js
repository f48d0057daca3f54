// Copies Swagger UI next to the pages under /docs, so that the Worker serves it without a third party. Wrangler runs this
// before each build (wrangler.toml, [build]). Plain JavaScript, because any version of Node may run it.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { writeIfChanged } from './write-if-changed.js';

const from = new URL('../../node_modules/swagger-ui-dist/', import.meta.url);
const to = new URL('../../public/docs/swagger-ui/', import.meta.url);

const bundle = 'swagger-ui-bundle.js';
for (const name of [bundle, `${bundle}.LICENSE.txt`, 'swagger-ui.css', 'LICENSE', 'NOTICE']) {
  writeIfChanged(fileURLToPath(new URL(name, to)), readFileSync(new URL(name, from)));
}
