// `npm run secrets`: makes the secrets of a deployment, once, in one private file, and prints those of a part in the form in
// which it takes them. Sends nothing: `wrangler deploy --secrets-file` does.
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { readCommandLine } from '../rig/command-line.ts';
import { secretsFileOf, writeSecrets } from './local/secrets.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: npm run secrets -- [--env NAME] [--for PART]

  Makes secrets.env, or secrets.NAME.env, which only its owner can read. A file that exists stays as it is.

  --for  prints the settings of bridge, broker, gateway or operator: the first value of each secret in that file`;

/** How a part calls the secrets of the Worker. The placeholders of a broker's examples are named like them. */
const namesOf: Partial<Record<string, Record<string, string>>> = {
  bridge: { BRIDGE_SECRET: 'BRIDGE_SECRETS', MQTT_PASSWORD: 'BRIDGE_MQTT_PASSWORDS' },
  broker: { HOOK_SECRET: 'BROKER_HOOK_SECRETS', BRIDGE_MQTT_PASSWORD: 'BRIDGE_MQTT_PASSWORDS' },
  gateway: { GATEWAY_SECRET: 'GATEWAY_SECRETS' },
  operator: { OPERATOR_SECRET: 'OPERATOR_SECRETS' },
};
const options = { env: { type: 'string' }, for: { type: 'string' } } as const;
const { path, part } = readCommandLine({ name: 'npm run secrets', usage, options }, ({ values }) => {
  const isPart = values.for === undefined || Object.hasOwn(namesOf, values.for);
  if (!isPart) throw new Error(`--for needs ${Object.keys(namesOf).join(', ')}`);
  return { path: secretsFileOf(values.env), part: values.for };
});
process.on('uncaughtException', fail);
if (part === undefined) print(`${path} ${writeSecrets(path) ? 'is made: keep it' : 'stays as it is'}.`);
const secrets = part === undefined ? {} : parseEnv(readFileSync(path, 'utf8'));
for (const [name, secretName] of Object.entries(namesOf[part ?? ''] ?? {})) {
  const [newest = ''] = (secrets[secretName] ?? '').split(',');
  if (newest === '') fail(`${path} has no ${secretName}`);
  print(`${name}=${newest}`);
}
