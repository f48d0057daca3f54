// What `npm run deploy` refuses before it asks Cloudflare: the settings as they are in the repository, and what is wrong in others.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { writeDeployment } from '../../../dev/deployment.ts';
import { findDeploymentFaults } from '../../../dev/deployment-check.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const repository = readFileSync(fileURLToPath(new URL('../../../wrangler.toml', import.meta.url)), 'utf8');
const filled = repository.replace('MQTT_HOST = ""', 'MQTT_HOST = "broker.example.com"');

const dir = makeTempDir('deployment');

function faultsOf(toml: string, { environment, secrets }: { environment?: string; secrets?: string } = {}): string[] {
  const sourcePath = join(dir, 'wrangler.toml');
  writeFileSync(sourcePath, toml);
  const { configPath } = writeDeployment(sourcePath, environment);
  const secretsFile = secrets === undefined ? undefined : join(dir, 'secrets');
  if (secretsFile !== undefined) writeFileSync(secretsFile, secrets ?? '');
  return findDeploymentFaults(configPath, secretsFile);
}

test('settings that are filled in are right', () => {
  expect(faultsOf(filled)).toEqual([]);
});

test('settings as they are in the repository are refused by their names', () => {
  expect(faultsOf(repository)).toEqual(['MQTT_HOST is the bare host name or IPv4 address of the broker or gateway']);
});

test.each([
  [
    'BROKER_PROVISIONING = "none"',
    'BROKER_PROVISIONING = "emqx"',
    /^BROKER_PROVISIONING is one of "none", "mosquitto"$/,
  ],
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

test('an environment has what is at the top, but for its own', () => {
  const inStaging = (toml: string) => faultsOf(toml, { environment: 'staging' });
  expect(inStaging(`${filled}\n[env.staging]\n`)).toEqual([]);
  expect(() => inStaging(filled)).toThrow('[env.staging.vars]');
  expect(inStaging(`${filled}\n[env.staging.vars]\nRATE_LIMITS = "relaxed"\n`)).toEqual([
    expect.stringMatching(/^RATE_LIMITS is relaxed/),
  ]);
  expect(inStaging(`${filled}\n[env.staging.triggers]\ncrons = []\n`)).toEqual([
    'triggers.crons is empty: * * * * * is shipped',
  ]);
});

test('an environment takes neither domain nor database nor counters from the top', () => {
  const top = filled
    .replace('compatibility_date', 'routes = [{ pattern = "api.example.com", custom_domain = true }]\n$&')
    .replace('binding = "DB"', '$&\ndatabase_id = "11111111-2222-4333-8444-555555555555"');
  writeFileSync(join(dir, 'wrangler.toml'), `${top}\n[env.staging]\n`);
  const [production, staging] = [undefined, 'staging'].map((environment) => {
    const { configPath } = writeDeployment(join(dir, 'wrangler.toml'), environment);
    return JSON.parse(readFileSync(configPath, 'utf8')) as Record<string, unknown>;
  });
  expect(production).toMatchObject({ name: 'latchwork', d1_databases: [{ database_name: 'latchwork' }] });
  expect(Object.keys(production ?? {})).toContain('routes');
  expect(staging).toMatchObject({ name: 'latchwork-staging', d1_databases: [{ database_name: 'latchwork-staging' }] });
  expect(Object.keys(staging ?? {})).not.toContain('routes');
  expect(JSON.stringify(staging)).not.toContain('11111111-');
  const counters = [production, staging].flatMap((settings) => settings?.['ratelimits'] as { namespace_id: string }[]);
  expect(new Set(counters.map((row) => row.namespace_id)).size).toBe(counters.length);
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
