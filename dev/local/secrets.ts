// Secrets of `npm start`, made once and kept in the state folder, readable by its owner alone. Production secrets are never
// here.
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { type LocalSecrets, secretNames } from '../../rig/services/parts.ts';
import { prepareStateDir } from './state-dir.ts';

export function loadSecrets(stateDir: string): LocalSecrets {
  prepareStateDir(stateDir);
  const path = join(stateDir, 'secrets.env');
  const known = existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {};
  const secrets = Object.fromEntries(
    secretNames.map((name) => [name, known[name] ?? generateSecret(name)]),
  ) as LocalSecrets;
  if (secretNames.some((name) => known[name] === undefined)) {
    const lines = secretNames.map((name) => `${name}=${secrets[name]}\n`);
    writePrivateFile(path, `# Made for this machine at the first start. Delete to get new ones.\n${lines.join('')}`);
  }
  return secrets;
}

export function writePrivateFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 });
  // The mode above counts for a new file only.
  chmodSync(path, 0o600);
}

export function generateSecret(name: string): string {
  const secret = randomBytes(32).toString('base64url');
  return name === 'JWT_SECRETS' ? `local:${secret}` : secret;
}
