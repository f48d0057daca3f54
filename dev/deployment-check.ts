// Finds the settings in wrangler.toml and the secrets that would keep a deployment from running, before it is deployed. Asks
// nobody, so that it cannot know which secrets Cloudflare has.
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { unstable_readConfig as readWranglerConfig } from 'wrangler';
import { z } from 'zod';
import { findSettingProblems } from '../src/config.ts';

export type Deployment = {
  configPath: string;
  /** An environment of wrangler.toml; undefined is the settings at the top of the file. */
  environment: string | undefined;
  /** A file as for `wrangler deploy --secrets-file`; without one secrets are taken to be right. */
  secretsFile: string | undefined;
};

/** The members of wrangler's own view of its file that are checked here. */
const configSchema = z.object({
  vars: z.record(z.string(), z.unknown()),
  secrets: z.object({ required: z.array(z.string()).optional() }).optional(),
  d1_databases: z.array(
    z.object({ binding: z.string(), database_name: z.string(), database_id: z.string() }).partial(),
  ),
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string() })) }),
  ratelimits: z.array(z.object({ name: z.string() })),
  triggers: z.object({ crons: z.array(z.string()).optional() }),
});
/** Secrets that only some deployments have. */
export const optionalSecrets = [
  'BRIDGE_SECRETS',
  'BRIDGE_MQTT_PASSWORDS',
  'BROKER_HOOK_SECRETS',
  'GATEWAY_SECRETS',
  'OPERATOR_SECRETS',
  'MAIL_SECRET',
  'BROKER_API_KEY',
  'BROKER_API_SECRET',
];
const noDatabase = '00000000-0000-0000-0000-000000000000';

/** One line each, with the name of the setting; never its value. @throws Error if a file cannot be read */
export function findDeploymentFaults({ configPath, environment, secretsFile }: Deployment): string[] {
  const config = configSchema.parse(
    readWranglerConfig({ config: configPath, env: environment }, { hideWarnings: true }),
  );
  const secrets = secretsFile === undefined ? rightSecrets(config.secrets?.required ?? []) : readSecrets(secretsFile);
  const faults = findSettingProblems({ ...config.vars, ...secrets }).map(({ name, problem }) => `${name} ${problem}`);
  const database = config.d1_databases.find(({ binding }) => binding === 'DB');
  if (database === undefined)
    faults.push('d1_databases has no binding DB: bindings of the top are not those of an environment');
  else if ((database.database_id ?? noDatabase) === noDatabase) {
    faults.push(`database_id of ${database.database_name ?? 'DB'} is not set: npx wrangler d1 create prints it`);
  }
  const objects = findMissing('DurableObjectNamespace', config.durable_objects.bindings);
  const limiters = findMissing('RateLimit', config.ratelimits);
  faults.push(...objects.map((name) => `durable_objects has no binding ${name}`));
  faults.push(...limiters.map((name) => `ratelimits has no binding ${name}`));
  if (config.triggers.crons?.length === 0) faults.push('triggers.crons is empty: what runs every minute never would');
  if (config.vars['RATE_LIMITS'] === 'relaxed')
    faults.push('RATE_LIMITS is relaxed, which is for tests and local runs');
  return faults;
}

/** The Worker's bindings of a type, as `npm run types` wrote them, that the settings lack. */
function findMissing(type: string, bindings: { name: string }[]): string[] {
  const types = readFileSync(new URL('../src/worker-env.d.ts', import.meta.url), 'utf8');
  const needed = [...types.matchAll(new RegExp(`^\\t(\\w+): ${type}\\b`, 'gm'))].map(([, name = '']) => name);
  return needed.filter((name) => !bindings.some((bound) => bound.name === name));
}

function rightSecrets(required: string[]): Record<string, string> {
  const secret = 'x'.repeat(32);
  const pairs = [...required, ...optionalSecrets].map((name) => [name, secret]);
  return { ...Object.fromEntries(pairs), JWT_SECRETS: `kid:${secret}` } as Record<string, string>;
}

function readSecrets(path: string): Record<string, unknown> {
  const text = readFileSync(path, 'utf8');
  return text.trimStart().startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : parseEnv(text);
}
