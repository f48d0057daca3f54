// What `npm start` and the commands beside it say about settings that cannot be used: one line with the way out.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { checkVars, readSettings } from '../../../dev/local/settings.ts';
import { prepareStateDir } from '../../../dev/local/state-dir.ts';
import { findFreePort } from '../../../rig/ports.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const rootDir = fileURLToPath(new URL('../../..', import.meta.url));

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

test('the table of settings names every port that is listened on, with its default', () => {
  const readme = readFileSync(join(rootDir, 'README.md'), 'utf8');
  const [names, defaults] = /^\| `API_PORT`.*$/m.exec(readme)?.[0].split('|').slice(1) ?? [];
  const ports = Object.values(readSettings({}).ports);
  expect(names?.trim()).toBe(ports.map(({ name }) => `\`${name}\``).join(', '));
  expect(defaults?.trim()).toBe(ports.map(({ port }) => port).join(', '));
});

test('npm run dev and npm start say which port or setting is wrong, and start nothing', async () => {
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  const { port } = holder.address() as AddressInfo;
  const stateDir = makeTempDir('state');
  const isTaken = (name: string) => `Port ${port} is taken: choose another one with ${name}=<port>`;
  for (const [command, name, value, problem] of [
    ['dev/wrangler-dev.ts', 'API_PORT', 'none', 'API_PORT is "none": give a port from 1 to 65535'],
    ['dev/local/service.ts', 'MQTT_PORT', String(port), isTaken('MQTT_PORT')],
    ['dev/local/service.ts', 'RATE_LIMITS', 'none', 'RATE_LIMITS is one of "production", "relaxed"'],
  ] as const) {
    const env = { ...process.env, STATE_DIR: stateDir, [name]: value };
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(rootDir, command)], { env, encoding: 'utf8' });
    expect([status, stderr.trim().split('\n')]).toEqual([1, [expect.stringContaining(problem)]]);
    expect(stdout).not.toMatch(/ready|building/i);
    expect(readdirSync(stateDir)).not.toContain('start.pid');
  }
  expect(() => checkVars({ MQTT_HOST: 'x', LIMITS: 'nonsense=1' })).toThrow(/LIMITS .*nonsense/);
  holder.close();
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
