// The settings of `wrangler dev`: written once, private, and complete.
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { unstable_getVarsForDev, unstable_readConfig } from 'wrangler';
import { workerSecrets } from '../../../dev/deployment-check.ts';
import { writeDevConfig, writeDevVars } from '../../../dev/local/secrets.ts';
import { findSettingProblems } from '../../../src/config.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const example = readFileSync(join(root, '.dev.vars.example'), 'utf8');
let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'latchwork-dev-vars-'));
  copyFileSync(join(root, '.dev.vars.example'), join(dir, '.dev.vars.example'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it('are private, and let the Worker start', () => {
  expect(writeDevVars(dir)).toBe(true);
  const path = join(dir, '.dev.vars');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const { BROKER, ...written } = parseEnv(readFileSync(path, 'utf8'));
  const toml = readFileSync(join(root, 'wrangler.toml'), 'utf8');
  const pairs = [...toml.matchAll(/^([A-Z_]+) = "(.*)"$/gm)].map(([, name = '', value = '']) => [name, value] as const);
  const vars: Record<string, string> = Object.fromEntries(pairs);
  expect(findSettingProblems({ ...vars, ...written, BROKER })).toEqual([]);
});

it('reach `wrangler dev`, each of them', () => {
  writeDevVars(dir);
  copyFileSync(join(root, 'wrangler.toml'), join(dir, 'wrangler.toml'));
  const config = writeDevConfig(dir);
  const { vars, secrets } = unstable_readConfig({ config }, { hideWarnings: true }) as {
    vars: Record<string, string>;
    secrets?: { required: string[] };
  };
  const loaded = unstable_getVarsForDev(config, undefined, vars, undefined, true, secrets);
  expect(Object.keys(loaded)).toEqual(
    expect.arrayContaining(Object.keys(parseEnv(readFileSync(join(dir, '.dev.vars'), 'utf8')))),
  );
});

it('stay as they are', () => {
  writeFileSync(join(dir, '.dev.vars'), 'BROKER=none\n');
  expect(writeDevVars(dir)).toBe(false);
  expect(readFileSync(join(dir, '.dev.vars'), 'utf8')).toBe('BROKER=none\n');
});

it('name every secret in the example, with a comment', () => {
  for (const name of workerSecrets)
    expect(example).toMatch(new RegExp(`^# .+\\n(?:# [A-Z_]+=\\n)*(?:# )?${name}=$`, 'm'));
  // Cloudflare's deploy button would offer a value to everybody.
  expect(example).not.toMatch(/^[^#].*=./m);
});
