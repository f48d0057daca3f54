// `npm run deploy`: from a login at Cloudflare to a running service, again and again without harm. Makes what is missing, and changes
// no secret that is there. Talks to Cloudflare through wrangler alone.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseEnv } from 'node:util';
import { describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { writeDeployment, writePartSettings } from './deployment.ts';
import { findDeploymentFaults } from './deployment-check.ts';
import { writePrivateFile, writeSecrets } from './local/secrets.ts';
import { fail, print } from './terminal.ts';
import { askWrangler, root, runWrangler } from './wrangler.ts';

const usage = `Usage: npm run deploy -- [--env NAME] [--dry] [--config FILE]

  Checks the settings, makes the secrets and the database if they are missing, applies migrations, deploys, and runs the doctor.
  The secrets, and files for bridge, broker, gateway and operator, are in .deploy/NAME-OF-THE-WORKER: only you can read them.

  --env     an environment, e.g. staging: a Worker and a database of its own, with the settings at the top of wrangler.toml
            but for those in [env.staging.vars]
  --dry     checks the settings and builds the Worker; asks and changes nothing at Cloudflare
  --config  another file in place of wrangler.toml; its .deploy is beside it`;

const options = {
  env: { type: 'string' },
  dry: { type: 'boolean', default: false },
  config: { type: 'string', default: join(root, 'wrangler.toml') },
} as const;
const command = { name: 'npm run deploy', usage, options };
const { env: environment, config: sourcePath, dry } = readCommandLine(command, ({ values }) => values);
process.on('uncaughtException', fail);

const deployment = writeDeployment(sourcePath, environment);
const { vars, configPath, folder } = deployment;
const place = ['--config', configPath];
const shownFolder = relative('', folder);
const secretsFile = join(folder, 'secrets.env');
const hadSecretsFile = existsSync(secretsFile);
const faults = findDeploymentFaults(configPath, hadSecretsFile ? secretsFile : undefined);
if (faults.length > 0) fail(`This is not ready:\n${faults.map((fault) => `  ${withLine(fault)}`).join('\n')}`);
say('settings', 'are right');
if (dry) process.exit((await runWrangler(['deploy', '--dry-run', '--outdir', 'dist', ...place])) ?? 1);
const login = await step('login', 'whoami', '--json');
const { accounts } = JSON.parse(login) as { accounts: { name: string }[] };
say('login', `is right, for ${accounts.map((account) => account.name).join(', ')}`);
await prepareSecrets();
const hasSecretsFile = existsSync(secretsFile);
await prepareDatabase();
const url = await deploy();
if (hasSecretsFile) writePartSettings(deployment, url);
const broker = `mqtts://${vars['MQTT_HOST'] ?? ''}:${vars['MQTT_TLS_PORT'] ?? ''}`;
const doctor = [`--env-file-if-exists=${join(folder, 'operator.env')}`, join(root, 'dev/doctor.ts')];
spawnSync(process.execPath, [...doctor, '--url', url, '--broker', broker], { stdio: 'inherit' });
print(`
Next:
  - A new address needs a minute, and the doctor finds no bridge before it runs. Again: npm run doctor -- --url ${url}
  - Give each file of ${shownFolder} to its part: bridge.env and mqtt-gateway.env belong in /etc/latchwork of its machine.
  - Register the first user at ${url}/. To let nobody else register:
    env $(grep -v '^#' ${shownFolder}/operator.env) npm run operator -- --url ${url} sign-up closed`);

function say(subject: string, text: string): void {
  print(`${subject.padEnd(11)} ${text}`);
}

/** With the line of wrangler.toml that is wrong. Environments come last in it. */
function withLine(fault: string): string {
  const lines = readFileSync(sourcePath, 'utf8').split('\n');
  const isSet = (line: string) => line.startsWith(`${fault.split(' ')[0] ?? ''} =`);
  const index = environment === undefined ? lines.findIndex(isSet) : lines.findLastIndex(isSet);
  return index < 0 ? fault : `${relative('', sourcePath)}:${index + 1}: ${fault}`;
}

/** What wrangler printed. Ends this process, with what wrangler said, if it fails. */
async function step(subject: string, ...args: string[]): Promise<string> {
  return askWrangler([...args, ...place]).catch((error: unknown) => giveUp(subject, describeFailure(error)));
}

function giveUp(subject: string, reason: string): never {
  const token = 'CLOUDFLARE_API_TOKEN to a token with the rights "Workers Scripts: Edit" and "D1: Edit"';
  const advice = subject === 'login' ? `\nRun npx wrangler login, or set ${token}.` : '';
  fail(`${reason}${advice}\n${subject} failed. What is done stays done: solve this, then run npm run deploy again.`);
}

/** Makes none if Cloudflare has some: new ones would lock out devices. A machine of CI would forget them. */
async function prepareSecrets(): Promise<void> {
  const ask = () => askWrangler(['secret', 'list', '--format', 'json', ...place]);
  const isNew = (error: unknown) =>
    /Worker ".*" not found/.test(String(error)) ? '[]' : giveUp('secrets', String(error));
  const isKept = hadSecretsFile || process.env['CI'] !== undefined || (await ask().catch(isNew)).trim() !== '[]';
  if (!isKept) writeSecrets(secretsFile);
  const state = isKept ? 'stay as they are' : 'are made';
  say('secrets', `${state}: keep ${shownFolder}/secrets.env, Cloudflare shows none again`);
}

async function prepareDatabase(): Promise<void> {
  const migrate = ['d1', 'migrations', 'apply', 'DB', '--remote'];
  const migrated = await askWrangler([...migrate, ...place]).catch(async (error: unknown) => {
    if (!String(error).includes("Couldn't find a D1 DB named")) giveUp('database', String(error));
    await step('database', 'd1', 'create', deployment.d1_databases[0]?.database_name ?? '');
    return step('database', ...migrate);
  });
  say('database', migrated.includes('No migrations to apply') ? 'is up to date' : 'has the new migrations');
}

/** The address that people use: a domain before workers.dev. */
async function deploy(): Promise<string> {
  const outputPath = join(folder, 'deployed.ndjson');
  rmSync(outputPath, { force: true });
  // As JSON: in other files wrangler puts variables of this process in the place of values.
  const secretsPath = join(folder, 'secrets.json');
  if (hasSecretsFile) writePrivateFile(secretsPath, JSON.stringify(parseEnv(readFileSync(secretsFile, 'utf8'))));
  const secrets = hasSecretsFile ? ['--secrets-file', secretsPath] : [];
  // It has the terminal: it asks before it takes a domain from another Worker.
  const ended = await runWrangler(['deploy', ...secrets, ...place], { WRANGLER_OUTPUT_FILE_PATH: outputPath });
  rmSync(secretsPath, { force: true });
  if (ended !== 0) giveUp('deploy', '');
  const [, targets = '[]'] = /"targets":(\[.*?\])/.exec(readFileSync(outputPath, 'utf8')) ?? [];
  const hosts = (JSON.parse(targets) as string[]).flatMap(
    (target) => /^(?:https:\/\/)?([\w-]+\.[\w.-]+)/.exec(target)?.[1] ?? [],
  );
  const host = hosts.find((name) => !name.endsWith('.workers.dev')) ?? hosts[0];
  return host === undefined
    ? giveUp('doctor', 'The Worker has no address: add routes to wrangler.toml.')
    : `https://${host}`;
}
