// The MQTT client id of a bridge that was given none: random, made at the first start, kept in the spool folder. It is a
// secret, because brokers that do not bind it to a login hand the session to whoever names it, subscriptions included.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** @throws Error where the file cannot be written, read or used */
export function keptClientId(spoolDir: string): string {
  const path = join(spoolDir, 'mqtt-client-id');
  if (!existsSync(path)) {
    const made = `latchwork-bridge-${randomBytes(16).toString('hex')}`;
    writeFileSync(`${path}.new`, `${made}\n`, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
  }
  const clientId = readFileSync(path, 'utf8').trim();
  if (!/^latchwork-bridge-[0-9a-f]{32}$/.test(clientId)) throw new Error('it does not hold a client id');
  return clientId;
}
