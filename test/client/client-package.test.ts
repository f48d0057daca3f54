// What is published of the client: built and packed as `npm publish` would, then used by a program that knows nothing of
// this repository.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { makeTempDir } from '../../rig/temp-dirs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const program = `
import { ApiError, dataOf, runCommand, Session, type Command, type Reason } from '@latchwork/client';
export async function main(): Promise<Command['state']> {
  const session = await Session.logIn('https://example.com', { username: 'ada', password: 'secret' });
  const { list } = await dataOf(session.api.devices.$get({ query: { status: 'online' } }));
  const position: 'up' | 'middle' | 'down' | null = (await dataOf(session.api.devices[':deviceId'].status.$get({ param: { deviceId: list[0]!.deviceId } }))).position;
  // @ts-expect-error an unknown position
  await runCommand(session.api, 'dev_1', { action: 'toggle', position: 'sideways' });
  // @ts-expect-error there is no such member
  console.log(position, list[0]!.nothing);
  return (await runCommand(session.api, 'dev_1', { action: 'toggle', position: 'up' })).state;
}
export const isGone = (error: unknown): boolean => error instanceof ApiError && error.reason === ('device_not_found' satisfies Reason);
// @ts-expect-error no documented word
export const never: Reason = 'device_lost';
`;

it('types, builds and runs without anything of the service and of Node', () => {
  const folder = makeTempDir('client-package');
  execFileSync('npm', ['pack', '--pack-destination', folder, '--silent'], { cwd: join(root, 'client') });
  const [tarball = ''] = readdirSync(folder);
  const installed = join(folder, 'node_modules/@latchwork/client');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['xzf', join(folder, tarball), '-C', installed, '--strip-components', '1']);
  cpSync(join(root, 'node_modules/hono'), join(folder, 'node_modules/hono'), { recursive: true });

  const files = readdirSync(join(installed, 'dist')).filter((file) => /\.(js|ts)$/.test(file));
  for (const file of files) {
    const text = readFileSync(join(installed, 'dist', file), 'utf8');
    for (const [, from = ''] of text.matchAll(/(?:from|import) ["']([^"']+)["']/g)) {
      expect(from, file).toMatch(/^(\.\/|hono(\/client)?$)/);
    }
    if (file.endsWith('.js')) expect(text, file).not.toMatch(/\b(process|Buffer|require|setImmediate)\b/);
  }

  const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as { bin: Record<string, string> };
  const help = execFileSync(process.execPath, [join(installed, bin['latchwork-sign'] ?? ''), '--help'], {
    encoding: 'utf8',
  });
  expect(help).toContain('latchwork-sign keygen');

  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'program.ts'), program);
  const compilerOptions = { strict: true, target: 'es2022', module: 'nodenext', lib: ['es2022', 'dom'], types: [] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }));
  const compiled = spawnSync(join(root, 'node_modules/.bin/tsc'), [], { cwd: folder, encoding: 'utf8' });
  expect(compiled.stdout).toBe('');
  const check = "import('./program.js').then(({ isGone }) => console.log(isGone(new Error('x'))))";
  expect(execFileSync(process.execPath, ['-e', check], { cwd: folder, encoding: 'utf8' })).toBe('false\n');
});
