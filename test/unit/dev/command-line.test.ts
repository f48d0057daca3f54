// The commands of package.json as people try them first: --help, a misspelt option, a Node that is too old. None of them may start
// or delete anything then.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const rootDir = fileURLToPath(new URL('../../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(join(rootDir, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
const commands = Object.entries(scripts).flatMap(([name, script]) => {
  const [, file] = /^node (dev\/\S+)$/.exec(script) ?? [];
  return file === undefined ? [] : [{ name: name === 'start' ? 'npm start' : `npm run ${name}`, file }];
});
const stateDir = makeTempDir('state');
mkdirSync(stateDir, { recursive: true });
writeFileSync(join(stateDir, 'secrets.env'), '');

function run(file: string, options: string[], nodeOptions: string[] = []) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeOptions, file, ...options], {
    cwd: rootDir,
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, STATE_DIR: stateDir },
  });
  return { status, stdout, stderr };
}

test('there are commands', () => {
  expect(commands.length).toBeGreaterThan(9);
});

test.each(commands)('$name -- --help shows what there is, and does nothing else', ({ name, file }) => {
  const { status, stdout, stderr } = run(file, ['--help']);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^Usage: /);
  expect(stdout.split('\n', 1)[0]).toContain(name);
  expect(existsSync(join(stateDir, 'secrets.env'))).toBe(true);
});

test.each(commands.filter(({ file }) => /start|reset|watch|operator/.test(file)))(
  '$name says in one line what it does not know',
  ({ name, file }) => {
    expect(run(file, ['--colour'])).toEqual({
      status: 2,
      stdout: '',
      stderr: `Unknown option '--colour' (${name} -- --help shows what there is)\n`,
    });
    expect(existsSync(join(stateDir, 'secrets.env'))).toBe(true);
  },
);

test.each(['dev/start.js'])('a Node that cannot read TypeScript is told so by %s in one line', (file) => {
  const { status, stdout, stderr } = run(file, [], ['--no-experimental-strip-types']);
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(/^Node [\d.]+ cannot run TypeScript: use "npm start"[^\n]+\n$/);
});
