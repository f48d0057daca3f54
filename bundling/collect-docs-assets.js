// Puts Swagger UI beside the pages that show it, so that the Worker itself serves it: run by wrangler before each build
// (wrangler.toml, [build]). Plain JavaScript, because any Node may be first on the path there.
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';

const from = new URL('../node_modules/swagger-ui-dist/', import.meta.url);
const to = new URL('../public/docs/swagger-ui/', import.meta.url);

mkdirSync(to, { recursive: true });
for (const name of [
  'swagger-ui-bundle.js',
  'swagger-ui-bundle.js.LICENSE.txt',
  'swagger-ui.css',
  'LICENSE',
  'NOTICE',
]) {
  // A running Worker reads these files: one that is right already is left alone.
  if (!isSame(new URL(name, from), new URL(name, to))) copyFileSync(new URL(name, from), new URL(name, to));
}

function isSame(one, other) {
  try {
    return readFileSync(one).equals(readFileSync(other));
  } catch {
    return false;
  }
}
