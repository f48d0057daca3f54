// `serve init`: makes the folder of a server with its settings and secrets, readable by their owner alone. A file that exists keeps all
// that it has.
import { chmodSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { loadSecrets, writeOnce } from '../dev/local/secrets.ts';
import { print } from '../dev/terminal.ts';
import { prepareBuild } from './build.ts';
import { ProblemsError, readServer, settingsFile } from './settings.ts';

type Wanted = {
  host?: string | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  broker?: string | undefined;
};

/** @throws ProblemsError if the settings that it wrote, or found, cannot work */
export async function initialise(dataDir: string, { host, cert, key, broker }: Wanted): Promise<void> {
  if (host === undefined)
    throw new ProblemsError(['--host NAME is missing: the name that devices reach this machine by']);
  loadSecrets(dataDir);
  chmodSync(dataDir, 0o700);
  const hasTls = cert !== undefined;
  const lines = [
    '# Settings of the Latchwork server with this folder. Restart it after a change. Vars of wrangler.toml may be added.',
    `PUBLIC_HOST=${host}`,
    '# The API on 127.0.0.1, for a reverse proxy.',
    'API_PORT=8787',
    '# The API for everybody, with the certificate below.',
    `HTTPS_PORT=${hasTls ? '443' : 'off'}`,
    '# The gateway for devices. Without TLS, passwords of devices can be read on the way.',
    `MQTT_PORT=${broker === undefined ? '1883' : 'off'}`,
    `MQTT_TLS_PORT=${hasTls && broker === undefined ? '8883' : 'off'}`,
    `TLS_CERT_FILE=${hasTls ? resolve(cert) : ''}`,
    `TLS_KEY_FILE=${key === undefined ? '' : resolve(key)}`,
    `BROKER_URL=${broker ?? ''}`,
    '# Metrics of the gateway on 127.0.0.1; the bridge has the next port.',
    'HEALTH_PORT=9465',
  ];
  const isNew = writeOnce(join(dataDir, settingsFile), `${lines.join('\n')}\n`);
  const { https } = readServer(dataDir, {});
  print(
    `${join(dataDir, settingsFile)} ${isNew ? 'is made: look through it' : 'stays as it is'}. Building the Worker.`,
  );
  await prepareBuild();
  print(`Start it: npm run serve -- --data ${dataDir} (as a service: serve/latchwork.service)`);
  if (https === undefined) print('Put a reverse proxy in front: serve/examples has Caddyfile and nginx.conf.');
}
