// What a browser loads before it shows the console: the page, its style and the scripts that it needs at once. Parts that are
// loaded with their first use, the MQTT client of the virtual switch among them, are not counted.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const root = new URL('../../../', import.meta.url);
const publicFile = (path: string) => readFileSync(new URL(`public/${path}`, root));

it('is small: the console takes less than 40 KB until it is shown', () => {
  const { status, stderr } = spawnSync(process.execPath, ['dev/build/console.js'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  const scripts = new Map<string, Buffer>();
  const load = (name: string): void => {
    if (scripts.has(name)) return;
    const script = publicFile(`console/${name}`);
    scripts.set(name, script);
    for (const [, imported = ''] of script.toString().matchAll(/(?:from|import)"\.\/([^"]+)"/g)) load(imported);
  };
  load('main.js');
  expect([...scripts.keys()].filter((name) => name.startsWith('mqtt'))).toEqual([]);
  const files = [publicFile('index.html'), publicFile('console/style.css'), ...scripts.values()];
  const bytes = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0);
  expect(bytes).toBeLessThan(40_000);
  // It is the console that was measured.
  expect(bytes).toBeGreaterThan(15_000);
});
