// What `npm start` and the commands beside it say about settings that cannot be used: one line with the way out.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readBaseAddress } from '../../../dev/base-address.ts';
import { readSettings } from '../../../dev/local/settings.ts';
import { prepareStateDir } from '../../../dev/local/state-dir.ts';
import { eventually } from '../../../rig/changes.ts';
import { findFreePort } from '../../../rig/ports.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const rootDir = fileURLToPath(new URL('../../..', import.meta.url));

describe('settings of npm start', () => {
  test.each(['no', 'No'])('DEMO=%s starts without the demo', (text) => {
    expect(readSettings({ DEMO: text }).hasDemo).toBe(false);
  });

  test.each(['yes', ''])('DEMO=%s starts with it', (text) => {
    expect(readSettings({ DEMO: text }).hasDemo).toBe(true);
  });

  test('another word for DEMO is refused in one line', () => {
    expect(() => readSettings({ DEMO: 'maybe' })).toThrow(/^DEMO is "maybe": give yes or no$/);
  });
});

describe('the state folder', () => {
  const dir = makeTempDir('state');
  const file = join(dir, 'file');
  writeFileSync(file, '');

  test.each([file, join(file, 'below')])('%s is refused', (path) => {
    expect(() => {
      prepareStateDir(path);
    }).toThrow(/^STATE_DIR \S+ [^\n]+: give a folder that can be written$/);
  });

  test('is made with the folders above it', () => {
    const path = join(dir, 'a', 'b');
    prepareStateDir(path);
    prepareStateDir(path);
    expect(readdirSync(path)).toEqual(['.gitignore']);
  });
});

describe('the address of a deployment', () => {
  test.each([
    ['http://127.0.0.1:8787', 'http://127.0.0.1:8787'],
    ['http://127.0.0.1:8787/', 'http://127.0.0.1:8787'],
    ['http://127.0.0.1:8787/api/v1', 'http://127.0.0.1:8787'],
    ['https://host.example/below/api/v1/', 'https://host.example/below'],
  ])('%s is %s', (text, address) => {
    expect(readBaseAddress('--api', text)).toBe(address);
  });

  test.each([undefined, '', '127.0.0.1:8787', 'ws://127.0.0.1:8787'])('%s is refused in one line', (text) => {
    expect(() => readBaseAddress('--api', text)).toThrow(/^--api [^\n]+ e\.g\. http:\/\/127\.0\.0\.1:8787$/);
  });
});

// Run as processes of their own: what they hold ends with them.
const choosing = (port: number) => `
  import { choosePorts } from '${rootDir}dev/local/ports.ts';
  const wanted = Object.fromEntries(['api', 'mqtt'].map((name, at) =>
    [name, { name: name.toUpperCase(), port: ${port} + at, isExplicit: false }]));
  console.log(JSON.stringify(await choosePorts(wanted, '127.0.0.1')));
  setInterval(() => undefined, 1000);`;

test('starts at the same moment choose different ports', async () => {
  const port = await findFreePort();
  const script = join(makeTempDir('ports'), 'choose.ts');
  writeFileSync(script, choosing(port));
  const children = Array.from({ length: 4 }, () => spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 2] }));
  const chosen = await Promise.all(
    children.map(async ({ stdout }) => {
      for await (const line of createInterface({ input: stdout! })) {
        if (line.startsWith('{')) return Object.values(JSON.parse(line) as Record<string, number>);
      }
      return [];
    }),
  );
  for (const child of children) child.kill();
  expect(chosen.flat()).toHaveLength(8);
  expect(new Set(chosen.flat()).size).toBe(8);
});

test('a killed process leaves no temporary folder', async () => {
  const tmp = join(makeTempDir('killed'), 'tmp');
  mkdirSync(tmp);
  const code = `
    const { makeTempDir } = await import('${rootDir}rig/temp-dirs.ts');
    console.log(makeTempDir('left'));
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 2],
    env: { ...process.env, TMPDIR: tmp, LATCHWORK_TEST_ROOT: undefined },
  });
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  expect(existsSync(line)).toBe(true);
  child.kill('SIGKILL');
  await eventually('no folder is left', () => readdirSync(tmp).length === 0, 15_000);
});
