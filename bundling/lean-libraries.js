// What the Worker does not take from its libraries: the generators of the reference, zod's JSON schemas, and
// queries and routers of another kind, which no bundler can see to be unused. Fails the build where a library has changed in these places.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withoutMembers, withoutUnusedSchemaMethods } from './unused-members.js';

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

const unusedMembersOfDrizzle = {
  'dialect.js': ['buildRelationalQuery', 'migrate'],
  'select.js': ['rightJoin', 'fullJoin', 'crossJoin', 'createSetOperator', 'union', 'unionAll', 'intersect', 'except'],
  'update.js': ['createJoin', 'leftJoin', 'rightJoin', 'innerJoin', 'fullJoin'],
};

const documentsOfHono = ['openapiRoutes', 'getOpenAPIDocument', 'getOpenAPI31Document', 'doc', 'doc31'];

const unusedMembersOfHono = { 'hono-base.js': ['mount', 'fire'], 'request.js': ['parseBody'] };

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
      contents: withValidatorsMadeLater(
        // Only for the two lines: `z` as a value would keep every member of it.
        changed(withoutMembers(path, documentsOfHono), [
          ['import { z } from "zod";', ''],
          ['\nextendZodWithOpenApi(z);', ''],
          [', extendZodWithOpenApi, z }', ' }'],
        ]),
      ),
    }));
    onLoad(
      { filter: /[\\/]zod[\\/]v4[\\/]core[\\/](json-schema-processors|to-json-schema|memoizer|doc)\.js$/ },
      hollow,
    );
    onLoad({ filter: /[\\/]zod[\\/]v4[\\/]classic[\\/]schemas\.js$/ }, ({ path }) => ({
      // workerd does not let zod write code.
      contents: withoutUnusedSchemaMethods(path)
        .replace('core.$ZodObjectJIT.init', 'core.$ZodObject.init')
        .replace('import { util } from "../core/index.js"', 'import * as util from "../core/util.js"')
        .replaceAll('core.util.', 'util.'),
    }));
    onLoad({ filter: unusedOfDrizzle }, hollow);
    onLoad(
      { filter: /[\\/]drizzle-orm[\\/]sqlite-core[\\/](dialect|query-builders[\\/](select|update))\.js$/ },
      ({ path }) => ({
        contents: withoutMembers(path, unusedMembersOfDrizzle[basename(path)]),
      }),
    );
    onLoad({ filter: unusedOfHono }, hollow);
    onLoad({ filter: /[\\/]hono[\\/]dist[\\/](hono-base|request)\.js$/ }, ({ path }) => ({
      contents: withoutMembers(path, unusedMembersOfHono[basename(path)]),
    }));
    onLoad({ filter: /[\\/]jose[\\/]dist[\\/]webapi[\\/]lib[\\/]key\.js$/ }, ({ path }) => ({
      contents: withOneKindOfKey(readFileSync(path, 'utf8')),
    }));
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

/** Keys come as a CryptoKey (src/crypto/tokens.ts). */
function withOneKindOfKey(text) {
  const reader = /async function prepareKey\(entry, key, usage\) \{[^]*?\n\}\n/;
  if (!reader.test(text)) throw new Error('jose has changed: it prepares keys elsewhere');
  return text.replace(
    reader,
    `async function prepareKey(entry, key) {
      if (!isCryptoKey(key)) throw new TypeError('not a CryptoKey');
      return key;
    }`,
  );
}

/** The `request` of a route comes as a function (lean-sources.js): its schemas are made for the first request. */
function withValidatorsMadeLater(text) {
  const later = changed(text, [
    ['hide, ...route }', 'hide, ...declared }'],
    ['\n\t\tif (!hide) this.openAPIRegistry.registerPath(route);', ''],
    [
      'const validators = [];',
      'const make = () => { const route = { request: declared.request() }; const validators = [];',
    ],
    ['const middleware = routeMiddleware ?', 'return validators; }; const middleware = routeMiddleware ?'],
    [
      'this.on([route.method], [route.path.',
      'const validators = declared.request === undefined ? [] : [validateWith(make)]; this.on([declared.method], [declared.path.',
    ],
  ]);
  return `${later}
    function validateWith(make) {
      let validators;
      const run = (index, c, next) =>
        index === validators.length ? next() : validators[index](c, () => run(index + 1, c, next));
      return (c, next) => {
        validators ??= make();
        return run(0, c, next);
      };
    }`;
}

function changed(text, edits) {
  return edits.reduce((rest, [from, to]) => {
    if (!rest.includes(from)) throw new Error(`@hono/zod-openapi has changed: it lacks ${JSON.stringify(from)}`);
    return rest.replace(from, to);
  }, text);
}
