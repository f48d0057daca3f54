// What `npm run deploy:dry` refuses: the settings as they are in the repository, and what is wrong in others.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { findDeploymentFaults } from '../../../dev/deployment-check.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const repository = readFileSync(fileURLToPath(new URL('../../../wrangler.toml', import.meta.url)), 'utf8');
const filled = repository
  .replace('MQTT_HOST = ""', 'MQTT_HOST = "broker.example.com"')
  .replace(/database_id = ".*"/, 'database_id = "11111111-2222-4333-8444-555555555555"');

const dir = makeTempDir('deployment');

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
  ['LIMITS = ""', 'LIMITS = "nonsense=1"', /^LIMITS /],
  ['crons = ["* * * * *"]', 'crons = []', /^triggers\.crons is empty/],
  ['LOCATION_HINT = ""', 'LOCATION_HINT = "mars"', /^LOCATION_HINT /],
  ['name = "HEALTH_LIMIT"', 'name = "OTHER_LIMIT"', /^ratelimits has no binding HEALTH_LIMIT$/],
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

test('an environment needs settings and bindings of its own', () => {
  const faults = faultsOf(`${filled}\n[env.staging]\nname = "latchwork-staging"\n`, { environment: 'staging' });
  expect(faults).toEqual(expect.arrayContaining([expect.stringMatching(/^MQTT_HOST /)]));
  expect(faults).toEqual(expect.arrayContaining([expect.stringMatching(/^d1_databases has no binding DB/)]));
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
});
