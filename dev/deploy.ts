// `npm run deploy`: from a login at Cloudflare to a running service, again and again without harm. Makes what is missing, and changes
// no secret that is there. Talks to Cloudflare through wrangler alone.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseEnv } from 'node:util';
import { readCommandLine } from '../rig/command-line.ts';
import { secretNames } from '../rig/services/parts.ts';
import { writeDeployment, writePartSettings } from './deployment.ts';
import { findDeploymentFaults } from './deployment-check.ts';
import { loadSecrets, writePrivateFile } from './local/secrets.ts';
import { fail, print } from './terminal.ts';
import { askWrangler, root, runWrangler } from './wrangler.ts';

const usage = `Usage: npm run deploy -- [--env NAME] [--dry] [--config FILE]

  Checks the settings, makes secrets, database and bucket if they are missing, applies migrations, deploys, and runs the doctor.
  The secrets, and files for bridge, broker, gateway and operator, are in .deploy/NAME-OF-THE-WORKER: only you can read them.

  --env     e.g. staging: a Worker, database and bucket of its own, with all settings of the file but those in [env.staging.vars]
  --dry     checks the settings and builds the Worker; asks and changes nothing at Cloudflare
  --config  another file in place of wrangler.toml; its .deploy is beside it`;

const options = {
  env: { type: 'string' },
  dry: { type: 'boolean', default: false },
  config: { type: 'string', default: join(root, 'wrangler.toml') },
} as const;
/** A broker issues the others. */
const deployedSecrets = secretNames.filter((name) => !name.startsWith('BROKER_API_'));
const command = { name: 'npm run deploy', usage, options };
const { env: environment, config: sourcePath, dry } = readCommandLine(command, ({ values }) => values);
process.on('uncaughtException', fail);
const deployment = writeDeployment(sourcePath, environment);
const { vars, configPath, folder } = deployment;
const place = ['--config', configPath];
const secretsFile = join(folder, 'secrets.env');
const hadSecrets = existsSync(secretsFile);
const faults = findDeploymentFaults(configPath, hadSecrets ? secretsFile : undefined);
if (faults.length > 0) fail(`This is not ready:\n${faults.map((fault) => `  ${withLine(fault)}`).join('\n')}`);
say('settings', 'are right');
if (dry) process.exit((await runWrangler(['deploy', '--dry-run', '--outdir', 'dist', ...place])) ?? 1);
const login = JSON.parse(step('login', ['whoami', '--json'])) as { accounts: { name: string }[] };
say('login', `is right, for ${login.accounts.map((account) => account.name).join(', ')}`);
// None are made if Cloudflare has some: new ones would lock out devices. A machine of CI would forget them.
const listSecrets = ['secret', 'list', '--format', 'json'];
const mayMake = !hadSecrets && process.env['CI'] === undefined;
const isMade = mayMake && ['', '[]'].includes(step('secrets', listSecrets, /Worker ".*" not found/).trim());
if (isMade) loadSecrets(folder, deployedSecrets);
const hasSecrets = hadSecrets || isMade;
const shownFolder = relative('', folder);
const keep = hasSecrets ? `keep ${shownFolder}/secrets.env, Cloudflare shows none again` : 'Cloudflare alone has them';
say('secrets', `${isMade ? 'are made' : 'stay'}: ${keep}`);
const migrate = ['d1', 'migrations', 'apply', 'DB', '--remote'];
if (step('database', migrate, /Couldn't find a D1 DB named/) === '') {
  step('database', ['d1', 'create', deployment.d1_databases[0]?.database_name ?? '']);
  step('database', migrate);
}
say('database', 'is there, with all migrations');
const bucket = deployment.r2_buckets[0]?.bucket_name ?? '';
step('images', ['r2', 'bucket', 'create', bucket], /already exists, and you own it/);
say('images', 'have their bucket');
const url = await deploy();
if (hasSecrets) writePartSettings(deployment, url);
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
  print(`${subject.padEnd(9)} ${text}`);
}

/** With the line of wrangler.toml that is wrong. Environments come last in it. */
function withLine(fault: string): string {
  const lines = readFileSync(sourcePath, 'utf8').split('\n');
  const isSet = (line: string) => line.startsWith(`${fault.split(' ')[0] ?? ''} =`);
  const index = environment === undefined ? lines.findIndex(isSet) : lines.findLastIndex(isSet);
  return index < 0 ? fault : `${relative('', sourcePath)}:${index + 1}: ${fault}`;
}

/** What wrangler printed, or nothing if it failed for the expected reason. Another failure ends this process. */
function step(subject: string, args: string[], expected?: RegExp): string {
  const { isDone, text } = askWrangler([...args, ...place]);
  if (isDone) return text;
  return expected?.test(text) === true ? '' : giveUp(subject, text);
}

function giveUp(subject: string, reason: string): never {
  const login =
    '\nRun npx wrangler login, or set CLOUDFLARE_API_TOKEN (rights "Workers Scripts: Edit", "D1: Edit", "Workers R2 Storage: Edit").';
  const advice = subject === 'login' ? login : '';
  fail(`${reason}${advice}\n${subject} failed. What is done stays done: solve this, then run npm run deploy again.`);
}

/** Answers the address that people use: a domain before workers.dev. */
async function deploy(): Promise<string> {
  const outputPath = join(folder, 'deployed.ndjson');
  rmSync(outputPath, { force: true });
  // As JSON: in other files wrangler puts variables of this process in the place of values.
  const secretsPath = join(folder, 'secrets.json');
  if (hasSecrets) writePrivateFile(secretsPath, JSON.stringify(parseEnv(readFileSync(secretsFile, 'utf8'))));
  const secrets = hasSecrets ? ['--secrets-file', secretsPath] : [];
  // It has the terminal: it asks before it takes a domain from another Worker.
  const ended = await runWrangler(['deploy', ...secrets, ...place], { WRANGLER_OUTPUT_FILE_PATH: outputPath });
  rmSync(secretsPath, { force: true });
  if (ended !== 0) giveUp('deploy', '');
  const [, targets = ''] = /"targets":\[(.*?)\]/.exec(readFileSync(outputPath, 'utf8')) ?? [];
  const hosts = [...targets.matchAll(/"(?:https:\/\/)?([\w-]+\.[\w.-]+)/g)].map(([, host = '']) => host);
  const host = hosts.find((name) => !name.endsWith('.workers.dev')) ?? hosts[0];
  return `https://${host ?? giveUp('doctor', 'The Worker has no address: add routes to wrangler.toml.')}`;
}
