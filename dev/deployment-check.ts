// Finds the settings in wrangler.toml and the secrets that would keep a deployment from running, before it is deployed. Asks
// nobody, so that it cannot know which secrets Cloudflare has.
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { unstable_readConfig as readWranglerConfig } from 'wrangler';
import { z } from 'zod';
import { secretNames } from '../rig/services/parts.ts';
import { findSettingProblems } from '../src/config.ts';
import { makeSecrets } from './local/secrets.ts';
import { findLocalVars } from './local/settings.ts';

const word = z.string();
/** The members of wrangler's own view of its file that are checked here. */
const configSchema = z.object({
  vars: z.record(word, z.unknown()),
  d1_databases: z.array(z.object({ binding: word })),
  durable_objects: z.object({ bindings: z.array(z.object({ name: word, class_name: word })) }),
  exports: z.record(word, z.object({ type: word, storage: word.default('nothing') })).default({}),
  ratelimits: z.array(
    z.object({ name: word, namespace_id: word, simple: z.object({ limit: z.number(), period: z.number() }) }),
  ),
  assets: z.record(word, z.unknown()).default({}),
  triggers: z.object({ crons: z.array(word).optional() }),
});
type WranglerConfig = z.infer<typeof configSchema>;
type Pair = [name: string, value: string];

/** No local run sends mails. */
export const workerSecrets: string[] = [...secretNames, 'MAIL_SECRET'];
const shippedTypes = readFileSync(new URL('../src/worker-env.d.ts', import.meta.url), 'utf8');
const shippedAssets = { directory: 'public', binding: 'ASSETS', run_worker_first: 'true' };
const nouns: Partial<Record<string, string>> = { exports: 'class', assets: 'setting' };
/** The addresses that devices, people and the Worker itself meet. */
const hostNames = ['MQTT_HOST', 'BROKER_API_URL', 'MAIL_URL', 'PASSWORD_RESET_URL', 'EMAIL_VERIFICATION_URL'];
const loopback = /^(?:(?:.+\.)?localhost\.?|127\.[\d.]+|0\.0\.0\.0|\[::1?\])$/;

/** One line each, with the name of the setting; never its value. @throws Error if a file cannot be read */
export function findDeploymentFaults(configPath: string, secretsFile?: string): string[] {
  const config = configSchema.parse(readWranglerConfig({ config: configPath }, { hideWarnings: true }));
  const { vars } = config;
  const secrets = secretsFile === undefined ? makeSecrets(workerSecrets) : parseEnv(readFileSync(secretsFile, 'utf8'));
  const faults = findSettingProblems({ ...vars, ...secrets }).map(({ name, problem }) => `${name} ${problem}`);
  const strange = Object.keys(secrets).filter((name) => !workerSecrets.includes(name));
  faults.push(...strange.map((name) => `${name} is no secret of the Worker`), ...findDifferences(config));
  const ofThisMachine = hostNames.filter((name) => isLoopback(vars[name]));
  faults.push(...ofThisMachine.map((name) => `${name} is an address of this machine alone`));
  if (vars['BROKER_PROVISIONING'] === 'mosquitto' && vars['BROKER_REPORTS_CONNECTIONS'] === 'true')
    faults.push('BROKER_REPORTS_CONNECTIONS has to be "false": mosquitto with BROKER_PROVISIONING reports none');
  return [...faults, ...findLocalVars(vars)];
}

function isLoopback(address: unknown): boolean {
  const url = URL.parse(String(address).replace(/^(?!.*:\/\/)/, 'http://'));
  return url !== null && loopback.test(url.hostname);
}

/** Compares with what is shipped, as `npm run types` and `npm run limits` wrote it. More than that may be there. */
function findDifferences({ d1_databases, durable_objects, exports, ratelimits, assets, triggers }: WranglerConfig) {
  const limitsPage = readFileSync(new URL('../docs/limits.md', import.meta.url), 'utf8');
  const limiters = findPairs(limitsPage, /^\| `([A-Z_]+)` \| (\d+ in \d+ s) \|/gm);
  const objects = findPairs(shippedTypes, /^\t(\w+): DurableObjectNamespace<import\(".*"\)\.(\w+)>/gm);
  const classes = objects.map(([, className]): Pair => [className, 'durable-object of sqlite']);
  const namespaces = ratelimits.map((row) => row.namespace_id);
  const shared = namespaces.filter((id, index) => namespaces.indexOf(id) < index);
  const tables: Record<string, [shipped: Pair[], present: Pair[]]> = {
    d1_databases: [[['DB', 'D1']], d1_databases.map(({ binding }) => [binding, 'D1'])],
    durable_objects: [objects, durable_objects.bindings.map((row) => [row.name, row.class_name])],
    exports: [classes, Object.entries(exports).map(([name, row]) => [name, `${row.type} of ${row.storage}`])],
    ratelimits: [limiters, ratelimits.map(({ name, simple }) => [name, `${simple.limit} in ${simple.period} s`])],
    assets: [Object.entries(shippedAssets), Object.entries(assets).map(([name, value]) => [name, String(value)])],
    triggers: [[['crons', '* * * * *']], [['crons', triggers.crons?.join(', ') || 'empty']]],
  };
  const faults = Object.entries(tables).flatMap(([table, [shipped, present]]) =>
    shipped.flatMap(([name, expected]) => {
      const value = new Map(present).get(name);
      if (value === undefined) return [`${table} has no ${nouns[table] ?? 'binding'} ${name}`];
      return value === expected ? [] : [`${table}.${name} is ${value}: ${expected} is shipped`];
    }),
  );
  return [...faults, ...shared.map((id) => `ratelimits has namespace_id ${id} twice: both would count together`)];
}

function findPairs(text: string, pattern: RegExp): Pair[] {
  return [...text.matchAll(pattern)].map(([, name = '', value = '']) => [name, value]);
}
