// Secrets, made once and readable by their owner alone. Those of `npm start` and of a server are in its folder, those of
// `npm run dev` in .dev.vars, and those of a deployment in .deploy. They are sent nowhere.
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { type LocalSecrets, secretNames } from '../../rig/services/parts.ts';
import { prepareStateDir } from './state-dir.ts';

/** Makes those that are missing; what the file has stays as it is. */
export function loadSecrets(stateDir: string, names: readonly string[] = secretNames): LocalSecrets {
  prepareStateDir(stateDir);
  const path = join(stateDir, 'secrets.env');
  const text = existsSync(path)
    ? readFileSync(path, 'utf8')
    : '# Made once for the data in this folder, which needs them.\n';
  const saved = parseEnv(text);
  const made = makeSecrets(names.filter((name) => saved[name] === undefined));
  const lines = Object.entries(made).map(([name, secret]) => `${name}=${secret}\n`);
  if (lines.length > 0) writePrivateFile(path, text.replace(/[^\n]$/, '$&\n') + lines.join(''));
  return { ...saved, ...made } as LocalSecrets;
}

/** Not in .dev.vars.example, which Cloudflare's deploy button offers to everybody. */
const devSettings = join(import.meta.dirname, '../settings/dev.vars');

/** The git-ignored file that `wrangler dev` reads. As `writeOnce`. */
export function writeDevVars(root: string): boolean {
  const example = readFileSync(join(root, '.dev.vars.example'), 'utf8');
  const text = example.replaceAll(/^([A-Z_]+)=$/gm, (_, name: string) => `${name}=${generateSecret(name)}`);
  return writeOnce(join(root, '.dev.vars'), `${text}\n${readFileSync(devSettings, 'utf8')}`);
}

/** wrangler.toml for `wrangler dev`, which with a list of required secrets takes those alone from .dev.vars. */
export function writeDevConfig(root: string): string {
  const path = join(root, '.dev.toml');
  const toml = readFileSync(join(root, 'wrangler.toml'), 'utf8');
  writeFileSync(path, toml.replace(/^\[secrets\]\n(?:(?!\[).*\n)*/m, ''));
  return path;
}

/** Answers whether it wrote the file: an existing one stays as it is. */
export function writeOnce(path: string, text: string): boolean {
  if (existsSync(path)) return false;
  writePrivateFile(path, text);
  return true;
}

export function writePrivateFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 });
  // The mode above counts for a new file only.
  chmodSync(path, 0o600);
}

export function makeSecrets(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, generateSecret(name)]));
}

function generateSecret(name: string): string {
  // For VAPID_KEY a private key of P-256: of all 32 bytes only one in 2^32 is none, and the Worker's settings refuse it.
  const secret = randomBytes(32).toString('base64url');
  return name === 'JWT_SECRETS' ? `k1:${secret}` : secret;
}
