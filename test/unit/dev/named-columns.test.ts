// Rows are written with named columns, so that a version of the code before still writes once a column was added.
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const root = new URL('../../../', import.meta.url).pathname;
const files = [...globSync('src/**/*.ts', { cwd: root }), ...globSync('broker-bridge/src/**/*.ts', { cwd: root })];
const insertPattern = /\b(?:insert|replace)\s+(?:or\s+\w+\s+)?into\s+(?:\$\{[^}]*\}|\S+)\s*(\S)/gi;

it('every statement that inserts rows names its columns', () => {
  const inserts = files.flatMap((file) =>
    [...readFileSync(`${root}${file}`, 'utf8').matchAll(insertPattern)].map(([text, next]) => ({ file, text, next })),
  );
  expect(inserts.length).toBeGreaterThan(10);
  expect(inserts.filter(({ next }) => next !== '(')).toEqual([]);
});
