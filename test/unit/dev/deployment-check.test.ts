// What `npm run deploy:dry` refuses: the settings as they are in the repository, and what is wrong in others.
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { expect, test } from 'vitest';
import { findDeploymentFaults } from '../../../dev/deployment-check.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const repository = readFileSync(fileURLToPath(new URL('../../../wrangler.toml', import.meta.url)), 'utf8');
const filled = repository
  .replace('MQTT_HOST = ""', 'MQTT_HOST = "broker.example.com"')
  .replace(/database_id = ".*"/, 'database_id = "11111111-2222-4333-8444-555555555555"');

const dir = makeTempDir('deployment');
const command = fileURLToPath(new URL('../../../dev/secrets.ts', import.meta.url));

function faultsOf(toml: string, { environment, secrets }: { environment?: string; secrets?: string } = {}): string[] {
  const configPath = join(dir, 'wrangler.toml');
  writeFileSync(configPath, toml);
  const secretsFile = secrets === undefined ? undefined : join(dir, 'secrets');
  if (secretsFile !== undefined) writeFileSync(secretsFile, secrets ?? '');
  return findDeploymentFaults({ configPath, environment, secretsFile });
}

test('settings that are filled in are right', () => {
  expect(faultsOf(filled)).toEqual([]);
});

test('settings as they are in the repository are refused by their names', () => {
  expect(faultsOf(repository)).toEqual([
    'MQTT_HOST is the bare host name or IPv4 address of the broker or gateway',
    'database_id of latchwork is not set: npx wrangler d1 create prints it',
  ]);
});

test.each([
  ['BROKER_PROVISIONING = "none"', 'BROKER_PROVISIONING = "emqx"', /^BROKER_PROVISIONING emqx needs BROKER_API_URL/],
  ['RATE_LIMITS = "production"', 'RATE_LIMITS = "relaxed"', /^RATE_LIMITS is relaxed/],
  ['BE_LOCAL = "false"', 'BE_LOCAL = "true"', /^WEBHOOKS_MAY_BE_LOCAL is true/],
  ['LIMITS = ""', 'LIMITS = "nonsense=1"', /^LIMITS /],
  ['crons = ["* * * * *"]', 'crons = []', /^triggers\.crons is empty/],
  ['LOCATION_HINT = ""', 'LOCATION_HINT = "mars"', /^LOCATION_HINT /],
  ['name = "HEALTH_LIMIT"', 'name = "OTHER_LIMIT"', /^ratelimits has no binding HEALTH_LIMIT$/],
  ['limit = 20, period = 60', 'limit = 1, period = 60', /^ratelimits\.REGISTER_LIMIT is 1 in 60 s: 20 in 60 s /],
  ['namespace_id = "1002"', 'namespace_id = "1001"', /^ratelimits has namespace_id 1001 twice/],
  ['[triggers]\ncrons = ["* * * * *"]', '', /^triggers\.crons is empty/],
  ['crons = ["* * * * *"]', 'crons = ["0 * * * *"]', /^triggers\.crons is 0 \* \* \* \*: \* \* \* \* \* is shipped$/],
  ['run_worker_first = true', '', /^assets has no setting run_worker_first$/],
  ['run_worker_first = true', 'run_worker_first = false', /^assets\.run_worker_first is false/],
  ['binding = "ASSETS"', 'binding = "FILES"', /^assets\.binding is FILES/],
  ['directory = "public"', 'directory = "docs"', /^assets\.directory is docs/],
  ['[exports.BrokerLink]\ntype = "durable-object"\nstorage = "sqlite"', '', /^exports has no class BrokerLink$/],
  ['class_name = "BrokerLink"', 'class_name = "RelayGateway"', /^durable_objects\.BROKER_LINK is RelayGateway/],
  ['11111111-2222-4333-8444-555555555555', 'latchwork', /^database_id of latchwork is not set/],
  ['"broker.example.com"', '"localhost"', /^MQTT_HOST is an address of this machine/],
  ['"broker.example.com"', '"127.0.0.1"', /^MQTT_HOST is an address of this machine/],
  ['BROKER_API_URL = ""', 'BROKER_API_URL = "http://[::1]:18083"', /^BROKER_API_URL is an address of this machine/],
])('%s changed to %s is refused', (before, after, fault) => {
  expect(filled).toContain(before);
  expect(faultsOf(filled.replace(before, after))).toEqual([expect.stringMatching(fault)]);
});

const classes = [...repository.matchAll(/^name = "(\w+)"\nclass_name/gm)].map(([, name = '']) => name);

test.each(classes)('a deployment without the binding %s is refused', (name) => {
  expect(faultsOf(filled.replace(`name = "${name}"`, 'name = "OTHER"'))).toEqual([
    `durable_objects has no binding ${name}`,
  ]);
});

test('mosquitto, which reports no connections, is refused with BROKER_REPORTS_CONNECTIONS', () => {
  const provisioned = filled.replace('BROKER_PROVISIONING = "none"', 'BROKER_PROVISIONING = "mosquitto"');
  expect(faultsOf(provisioned)).toEqual([]);
  expect(faultsOf(provisioned.replace(/(BROKER_REPORTS_CONNECTIONS =) "false"/, '$1 "true"'))).toEqual([
    expect.stringMatching(/^BROKER_REPORTS_CONNECTIONS has to be "false"/),
  ]);
});

/** The tables that an environment does not inherit, repeated in it. */
const inStaging = (toml: string): string => {
  const tables = toml.split(/^(?=\[)/m).filter((table) => /^\[+(?:vars|d1_|durable_|ratelimits|secrets)/.test(table));
  return tables.map((table) => table.replace(/^\[+/, '$&env.staging.')).join('');
};

test('an environment is compared with what is shipped, as the top is', () => {
  const staging = `${filled}\n[env.staging]\nname = "latchwork-staging"\n`;
  const without = faultsOf(staging, { environment: 'staging' });
  expect(without).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^MQTT_HOST /),
      'd1_databases has no binding DB',
      ...classes.map((name) => `durable_objects has no binding ${name}`),
      'ratelimits has no binding LOGIN_LIMIT',
    ]),
  );
  expect(faultsOf(filled, { environment: 'staging' })).toEqual(['there is no env.staging']);
  const repeated = inStaging(filled);
  expect(faultsOf(staging + repeated, { environment: 'staging' })).toEqual([]);
  const changed = `${repeated.replace('limit = 60,', 'limit = 6,')}[env.staging.triggers]\ncrons = []\n`;
  expect(faultsOf(staging + changed, { environment: 'staging' })).toEqual([
    'ratelimits.LOGIN_LIMIT is 6 in 60 s: 60 in 60 s is shipped',
    'triggers.crons is empty: * * * * * is shipped',
  ]);
});

test('secrets of a file are checked, and never shown', () => {
  const names = [
    'JWT_SECRETS',
    'BRIDGE_SECRETS',
    'BRIDGE_MQTT_PASSWORDS',
    'SEALING_SECRETS',
    'MESSAGING_SECRETS',
    'BROKER_HOOK_SECRETS',
  ];
  const lines = (secret: string) => names.map((name) => `${name}=${name === 'JWT_SECRETS' ? 'kid:' : ''}${secret}`);
  expect(faultsOf(filled, { secrets: lines('s'.repeat(32)).join('\n') })).toEqual([]);
  const faults = faultsOf(filled, { secrets: lines('too-short').slice(1).join('\n') });
  expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual([...names].sort());
  expect(faults.join('\n')).not.toContain('too-short');
  const misspelt = [...lines('s'.repeat(32)), 'BRIDGE_SECRET=abc'].join('\n');
  expect(faultsOf(filled, { secrets: misspelt })).toEqual(['BRIDGE_SECRET is no secret of the Worker']);
});

test.each(['A'.repeat(43), '_'.repeat(43), 'too-short'])('VAPID_KEY %s is refused', (key) => {
  const secrets = `JWT_SECRETS=kid:${'s'.repeat(32)}\nVAPID_KEY=${key}\n`;
  expect(faultsOf(filled.replace('BROKER = "bridge"', 'BROKER = "none"'), { secrets })).toContain(
    'VAPID_KEY is a private key of P-256: 43 characters of base64url',
  );
});

test('one command makes the secrets, which its owner alone can read, and prints what each part is given', () => {
  const cwd = makeTempDir('secrets');
  const secrets = (...options: string[]) =>
    execFileSync(process.execPath, [command, '--env', 'staging', ...options], { cwd, encoding: 'utf8' });
  secrets();
  const path = join(cwd, 'secrets.staging.env');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const made = readFileSync(path, 'utf8');
  expect(faultsOf(filled, { secrets: made })).toEqual([]);
  const values = parseEnv(made);
  expect(new Set(Object.values(values)).size).toBe(9);
  const given = {
    bridge: { BRIDGE_SECRET: values['BRIDGE_SECRETS'], MQTT_PASSWORD: values['BRIDGE_MQTT_PASSWORDS'] },
    broker: { HOOK_SECRET: values['BROKER_HOOK_SECRETS'], BRIDGE_MQTT_PASSWORD: values['BRIDGE_MQTT_PASSWORDS'] },
    gateway: { GATEWAY_SECRET: values['GATEWAY_SECRETS'] },
    operator: { OPERATOR_SECRET: values['OPERATOR_SECRETS'] },
  };
  for (const [part, settings] of Object.entries(given)) expect(parseEnv(secrets('--for', part))).toEqual(settings);
  secrets();
  expect(readFileSync(path, 'utf8')).toBe(made);
});
