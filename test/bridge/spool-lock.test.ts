// The lock of a spool folder: one bridge at a time, and a damaged lock file keeps nobody out.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { lockSpool } from '../../broker-bridge/src/spool-lock.ts';
import { makeSpoolDir } from '../rig/bridge-process.ts';

const lockModule = new URL('../../broker-bridge/src/spool-lock.ts', import.meta.url).href;

const holders: ChildProcess[] = [];
afterEach(async () => {
  for (const holder of holders.splice(0)) await end(holder);
});

async function end(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return;
  holder.kill('SIGKILL');
  await once(holder, 'exit');
}

/** Another process, because a process does not shut itself out by the operating system's locks. */
async function holdElsewhere(dir: string): Promise<ChildProcess> {
  const script = `
    const { lockSpool } = await import(${JSON.stringify(lockModule)});
    globalThis.lock = await lockSpool(${JSON.stringify(dir)}, 0);
    console.log(globalThis.lock === null ? 'refused' : 'held');
    setInterval(() => undefined, 1000);
  `;
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  holders.push(holder);
  const [said] = (await once(holder.stdout, 'data')) as [Buffer];
  expect(said.toString()).toBe('held\n');
  return holder;
}

test('a damaged lock file is emptied in place, and locks again', async () => {
  const dir = makeSpoolDir();
  const path = join(dir, 'lock.sqlite');
  writeFileSync(path, randomBytes(4096));
  const file = openSync(path, 'r');
  await holdElsewhere(dir);
  expect(fstatSync(file)).toMatchObject({ nlink: 1, size: 0 });
  closeSync(file);
  expect(await lockSpool(dir, 0)).toBeNull();
});

test('a lock held by another is respected, also where its file was damaged meanwhile', async () => {
  const dir = makeSpoolDir();
  const path = join(dir, 'lock.sqlite');
  const holder = await holdElsewhere(dir);
  expect(await lockSpool(dir, 0)).toBeNull();
  const damage = randomBytes(4096);
  writeFileSync(path, damage);
  expect(await lockSpool(dir, 0)).toBeNull();
  expect(readFileSync(path)).toEqual(damage);
  await end(holder);
  const lock = await lockSpool(dir, 5000);
  expect(lock).not.toBeNull();
  lock?.release();
});
