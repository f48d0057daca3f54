// Migrations after the first leave what the version before them reads and writes: a deployment goes back to that version and
// keeps its database. For the same reason rows are written with named columns. The counters are in test/worker/storage/list-counters.test.ts.
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const folder = new URL('../../../migrations/', import.meta.url);
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.sql'))
  .sort();

it('each takes nothing away that code before it names', () => {
  expect(files).not.toEqual([]);
  for (const file of files.slice(1)) {
    const statements = readFileSync(new URL(file, folder), 'utf8').split('--> statement-breakpoint');
    expect(
      statements.filter((text) => /\b(drop (table|view|column)|rename)\b/i.test(text)),
      file,
    ).toEqual([]);
    const columns = statements.filter((text) => /^\s*alter table/i.test(text));
    expect(
      columns.filter((text) => /\bnot null\b/i.test(text) && !/\bdefault\b/i.test(text)),
      file,
    ).toEqual([]);
  }
});

it('every statement that inserts rows names its columns', () => {
  const root = new URL('../../../', import.meta.url).pathname;
  const sources = globSync(['src/**/*.ts', 'broker-bridge/src/**/*.ts'], { cwd: root });
  const insertPattern = /\b(?:insert|replace)\s+(?:or\s+\w+\s+)?into\s+(?:\$\{[^}]*\}|\S+)\s*(\S)/gi;
  const inserts = sources.flatMap((file) =>
    [...readFileSync(`${root}${file}`, 'utf8').matchAll(insertPattern)].map(([text, next]) => ({ file, text, next })),
  );
  expect(inserts.length).toBeGreaterThan(10);
  expect(inserts.filter(({ next }) => next !== '(')).toEqual([]);
});
