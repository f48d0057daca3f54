// The log files of `npm start`: what a flood may not do to them.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openPartLog, type PartLog } from '../../../dev/local/log-files.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const stateDir = makeTempDir('logs');
let parts = 0;

function open(): { log: PartLog; read: (file: string) => string; part: string; unwritable: unknown[] } {
  const part = `part-${++parts}`;
  const unwritable: unknown[] = [];
  const log = openPartLog(stateDir, part, (error) => unwritable.push(error));
  onTestFinished(() => log.close());
  const read = (file: string): string => readFileSync(join(stateDir, 'logs', `${part}${file}`), 'utf8');
  return { log, read, part, unwritable };
}

const request = (code: number, n: number) =>
  JSON.stringify({ level: 'info', event: 'request', route: '/api/v1/devices/:deviceId/status', code, n });

test('a flood of one kind leaves what was there before and what comes beside it, and says how much it dropped', () => {
  const { log, read, part } = open();
  log.keep(JSON.stringify({ level: 'error', event: 'uncaught', error: 'the first' }));
  // More than both files hold together.
  const pad = 'x'.repeat(1000);
  for (let n = 0; n < 40_000; n += 1) log.keep(JSON.stringify({ level: 'info', event: 'request', code: 200, n, pad }));
  log.keep(request(500, 1));
  log.keep(JSON.stringify({ level: 'error', event: 'uncaught', error: 'the last' }));
  log.close();
  const all = read('.log');
  expect(all).toContain('the first');
  expect(all).toContain('"code":500');
  expect(all).toContain('the last');
  const kept = all.split('\n').filter((line) => line.includes('"pad"')).length;
  expect(kept).toBeLessThan(1000);
  const dropped = all.split('\n').filter((line) => line.includes('log_lines_dropped'));
  expect(dropped.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { kind: 'info request 200', lines: 40_000 - kept },
  ]);
  expect(readdirSync(join(stateDir, 'logs')).filter((name) => name.startsWith(part))).not.toContain(`${part}.log.1`);
});

test('warnings, errors and text are in a file of their own, where a flood of one does not push out another', () => {
  const { log, read } = open();
  log.keep('Error: out of memory');
  log.keep(JSON.stringify({ level: 'error', message: 'the bridge says so' }));
  for (let n = 0; n < 5000; n += 1) log.keep(JSON.stringify({ level: 'warn', event: 'login_refused', n }));
  log.keep(JSON.stringify({ level: 'info', event: 'ready' }));
  log.keep(JSON.stringify({ level: 'error', event: 'uncaught' }));
  const errors = read('.errors.log').trim().split('\n');
  expect(errors.slice(0, 2)).toEqual(['Error: out of memory', expect.stringContaining('the bridge says so')]);
  expect(errors.at(-1)).toContain('uncaught');
  expect(errors.filter((line) => line.includes('login_refused')).length).toBeLessThan(100);
  expect(errors.join('')).not.toContain('ready');
});

test('a line of megabytes is cut, and a file that is full makes room once', () => {
  const { log, read, part } = open();
  const path = join(stateDir, 'logs', `${part}.log`);
  log.keep('y'.repeat(5_000_000));
  expect(statSync(path).size).toBeLessThan(10_000);
  log.close();
  writeFileSync(path, `${'z'.repeat(99)}\n`.repeat(110_000));
  const again = openPartLog(stateDir, part, () => undefined);
  again.keep(request(200, 1));
  again.close();
  expect(read('.log').trim()).toBe(request(200, 1));
  expect(statSync(`${path}.1`).size).toBe(11_000_000);
});

test('kinds without end share one allowance', () => {
  const { log, read } = open();
  for (let n = 0; n < 20_000; n += 1) log.keep(JSON.stringify({ level: 'warn', event: `kind ${n}` }));
  expect(read('.errors.log').trim().split('\n').length).toBeLessThan(1000);
});

test('a file that cannot be written is said once, and again after it could be', () => {
  const { log, part, unwritable } = open();
  const path = join(stateDir, 'logs', `${part}.log`);
  mkdirSync(path);
  log.keep(request(200, 1));
  log.keep(request(200, 2));
  expect(unwritable).toHaveLength(1);
  rmSync(path, { recursive: true });
  log.keep(request(200, 3));
  rmSync(path);
  mkdirSync(path);
  log.keep(request(200, 4));
  expect(unwritable).toHaveLength(2);
  rmSync(path, { recursive: true });
});
