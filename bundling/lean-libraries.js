// What the Worker does not take from its libraries: the generators of the reference, zod's JSON schemas, and
// queries and routers of another kind, which no bundler can see to be unused. Fails the build where a library has changed in these places.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

const registry = `
  export class OpenAPIRegistry {
    definitions = [];
    registerPath() {}
  }
  export const getOpenApiMetadata = undefined;
  export const OpenApiGeneratorV3 = undefined;
  export const OpenApiGeneratorV31 = undefined;
  export const extendZodWithOpenApi = undefined;`;

/** Relational queries, the enumerations of another database, and the form of `sqliteTable` that takes a function. */
const unusedOfDrizzle =
  /[\\/]drizzle-orm[\\/](relations|pg-core[\\/]columns[\\/]enum|sqlite-core[\\/](columns[\\/]all|query-builders[\\/](count|query)))\.js$/;

/** Every router of ours is given another (src/http/router.ts). */
const unusedOfHono = /[\\/]hono[\\/]dist[\\/]router[\\/](smart-router|reg-exp-router)[\\/]router\.js$/;

/** An esbuild plugin. */
export const leanLibraries = {
  name: 'lean-libraries',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^zod$/ }, () => ({ path: `${root}bundling/zod.js` }));
    onLoad({ filter: /[\\/]@asteasolutions[\\/]zod-to-openapi[\\/]dist[\\/]index\.mjs$/ }, () => ({
      contents: registry,
    }));
    onLoad({ filter: /[\\/]@hono[\\/]zod-openapi[\\/]dist[\\/]index\.mjs$/ }, ({ path }) => ({
      // Only for the two lines: `z` as a value would keep every member of it.
      contents: without(readFileSync(path, 'utf8'), [
        'import { z } from "zod";',
        '\nextendZodWithOpenApi(z);',
        ', extendZodWithOpenApi, z }',
      ]).replace(/defineOpenAPIRoute;?\s*$/m, 'defineOpenAPIRoute };'),
    }));
    onLoad({ filter: /[\\/]zod[\\/]v4[\\/]core[\\/](json-schema-processors|to-json-schema)\.js$/ }, hollow);
    onLoad({ filter: unusedOfDrizzle }, hollow);
    onLoad({ filter: unusedOfHono }, hollow);
  },
};

/** A module with the same exports that do nothing. */
function hollow({ path }) {
  const text = readFileSync(path, 'utf8');
  const declared = [...text.matchAll(/^export (?:const|class|function) (\w+)/gm)].map(([, name]) => name);
  const listed = [...text.matchAll(/^export \{([^}]*)\};?$/gm)].flatMap(([, names]) => names.split(','));
  const names = new Set([...declared, ...listed.map((name) => name.trim().split(' as ').at(-1))]);
  if (names.size === 0) throw new Error(`${path} exports nothing that is known`);
  // A function can be called, made an instance of, extended and compared with.
  return { contents: [...names].map((name) => `export function ${name}() {}`).join('\n') };
}

function without(text, parts) {
  return parts.reduce((rest, part) => {
    if (!rest.includes(part)) throw new Error(`@hono/zod-openapi has changed: it lacks ${JSON.stringify(part)}`);
    return rest.replace(part, '');
  }, text);
}
