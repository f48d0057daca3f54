// What `npm run deploy` deploys: wrangler's settings for production or for an environment, the place of its secrets, and the files for
// the parts on other machines. Asks nobody and deploys nothing.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import * as wrangler from 'wrangler';
import { z } from 'zod';
import { writePrivateFile } from './local/secrets.ts';
import { prepareStateDir } from './local/state-dir.ts';
import { root } from './wrangler.ts';

const word = z.string();
const tableSchema = z.looseObject({
  name: word,
  vars: z.record(word, word),
  d1_databases: z.array(z.looseObject({ database_name: word })),
  r2_buckets: z.array(z.looseObject({ bucket_name: word })),
  ratelimits: z.array(z.looseObject({ namespace_id: word })),
});
const fileSchema = tableSchema.extend({ env: z.record(word, tableSchema.partial()).default({}) });
type Table = z.infer<typeof tableSchema>;

/** Wrangler's own type needs a package that is not published. */
type RawReader = { experimental_readRawConfig: (place: { config: string }) => { rawConfig: unknown } };
export type Deployment = Table & { configPath: string; folder: string };

/** Writes the settings beside their source. An environment has those at the top of it, but for what its section says. @throws Error */
export function writeDeployment(sourcePath: string, environment?: string): Deployment {
  const { rawConfig } = (wrangler as RawReader).experimental_readRawConfig({ config: sourcePath });
  const { env: environments, ...top } = fileSchema.parse(rawConfig);
  const own = environment === undefined ? {} : environments[environment];
  if (own === undefined) throw new Error(`there is no [env.${environment}.vars], with an MQTT_HOST of its own`);
  const base = environment === undefined ? top : setApart(top, environment);
  const table = tableSchema.parse({ ...base, ...own, vars: { ...top.vars, ...own.vars } });
  const folder = join(dirname(sourcePath), '.deploy', table.name);
  prepareStateDir(folder);
  const configPath = join(dirname(sourcePath), `.deploy.${table.name}.json`);
  writePrivateFile(configPath, JSON.stringify(table, null, 2));
  return { ...table, configPath, folder };
}

/** Another Worker with another database and bucket, which counts its limits for itself. A route leads to one Worker alone. */
function setApart(top: Table, environment: string): Table {
  const offset = 10_000 * (1 + createHash('sha256').update(environment).digest().readUInt16BE());
  const apart = structuredClone(top);
  Object.assign(apart, { name: `${top.name}-${environment}`, route: undefined, routes: undefined });
  for (const row of apart.d1_databases)
    Object.assign(row, { database_name: `${row.database_name}-${environment}`, database_id: undefined });
  for (const row of apart.r2_buckets) row.bucket_name += `-${environment}`;
  for (const row of apart.ratelimits) row.namespace_id = String(offset + Number(row.namespace_id));
  return apart;
}

/** Fills in the files for the parts: of each secret the first value, which is the newest. */
export function writePartSettings({ vars, folder }: Deployment, url: string): void {
  const values: NodeJS.Dict<string> = { url, ...vars, ...parseEnv(readFileSync(join(folder, 'secrets.env'), 'utf8')) };
  const templates = join(root, 'dev/settings');
  for (const name of readdirSync(templates).filter((file) => file.endsWith('.env'))) {
    const text = readFileSync(join(templates, name), 'utf8');
    const fill = (_: string, key: string) => (values[key] ?? '').split(',')[0] ?? '';
    writePrivateFile(join(folder, name), text.replaceAll(/\{(\w+)\}/g, fill));
  }
}
