// What the build makes of the Worker's sources before it bundles them: schemas are made with their first use, once, whoever
// uses them and by whatever name.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { leanSource } from '../../../bundling/lean-sources.js';

let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'latchwork-lean-'));
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Stands for zod: notes what is made. */
const z = `
  export const made: string[] = [];
  export const z = { object: make };
  function make(members: object) {
    const name = Object.keys(members).join();
    made.push(name);
    return { name, members, extend: (more: object) => make({ ...members, ...more }) };
  }`;

type Bundled = Record<string, () => unknown>;

/** Bundles and runs `main.ts`. */
async function run(sources: Record<string, string>): Promise<{ made: string[]; main: Bundled }> {
  const entry = "export * from './main.ts'; export { made } from './z.ts';";
  for (const [name, text] of Object.entries({ ...sources, 'z.ts': z, 'entry.ts': entry }))
    writeFileSync(join(dir, name), text);
  const outfile = join(dir, `${crypto.randomUUID()}.mjs`);
  await build({
    entryPoints: [join(dir, 'entry.ts')],
    bundle: true,
    format: 'esm',
    outfile,
    plugins: [
      {
        name: 'lean',
        setup: (plugged) =>
          plugged.onLoad({ filter: /\.ts$/ }, ({ path }) => ({ contents: leanSource(path), loader: 'ts' })),
      },
    ],
  });
  const { made, ...main } = (await import(/* @vite-ignore */ pathToFileURL(outfile).href)) as Bundled;
  return { made: made as unknown as string[], main };
}

it('makes a schema with its first use, once, in its own file and where it is imported', async () => {
  const { made, main } = await run({
    'schemas.ts': `
      import { z } from './z.ts';
      export const pageSchema = z.object({ page: 1 });
      export const listSchema = pageSchema.extend({ list: 1 });
      export const all = { page: pageSchema, list: listSchema };`,
    'main.ts': `
      import { all, listSchema as renamed, pageSchema } from './schemas.ts';
      export const readPage = () => pageSchema.name;
      export const readTwice = () => [renamed.name, { pageSchema }.pageSchema.name, all.list.name];`,
  });
  expect(made).toEqual([]);
  expect(main['readPage']?.()).toBe('page');
  expect(made).toEqual(['page']);
  expect(main['readTwice']?.()).toEqual(['page,list', 'page', 'page,list']);
  expect(main['readTwice']?.()).toEqual(['page,list', 'page', 'page,list']);
  expect(made).toEqual(['page', 'page,list']);
});

it('leaves other things of the same name alone', async () => {
  const { made, main } = await run({
    'main.ts': `
      import { z } from './z.ts';
      const itemSchema = z.object({ item: 1 });
      type Held = { itemSchema: typeof itemSchema };
      export const asParameter = () => ((itemSchema: string) => itemSchema)('given');
      export const asMember = () => ({ itemSchema: 'member' }).itemSchema;
      export const asVariable = () => { for (const itemSchema of ['looped']) return itemSchema; };
      export const inside = () => { const { itemSchema } = { itemSchema: 'taken' }; return itemSchema; };
      export const held = (): Held => ({ itemSchema });`,
  });
  const read = ['asParameter', 'asMember', 'asVariable', 'inside'].map((name) => main[name]?.());
  expect(read).toEqual(['given', 'member', 'looped', 'taken']);
  expect(made).toEqual([]);
  expect(main['held']?.()).toMatchObject({ itemSchema: { name: 'item' } });
});

it('makes it again with the next use where the first one failed', async () => {
  const { main } = await run({
    'main.ts': `
      import { z } from './z.ts';
      let isReady = false;
      const memberOf = () => { if (!isReady) throw new Error('not ready'); return 1; };
      const lateSchema = z.object({ late: memberOf() });
      export const read = () => lateSchema.name;
      export const becomeReady = () => void (isReady = true);`,
  });
  expect(main['read']).toThrow('not ready');
  main['becomeReady']?.();
  expect(main['read']?.()).toBe('late');
});

it('leaves out what only the reference needs, and keeps each line where it was', () => {
  const path = join(dir, 'described.ts');
  const text = `
    export const nameSchema = z
      .string()
      .openapi({ description: 'A name' })
      .min(1);
    const route = createRoute({
      method: 'get',
      summary: 'Says something',
      path: '/',
    });`;
  writeFileSync(path, text);
  const lean = leanSource(path);
  expect(lean).not.toMatch(/openapi|A name|summary|Says/);
  expect(lean).toMatch(/\.min\(1\)[^]*method: 'get'[^]*path: '\/'/);
  expect(lean.split('\n')).toHaveLength(text.split('\n').length);
});
