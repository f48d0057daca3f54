// `npm run deploy:dry`: refuses what would not run, and builds the Worker as `wrangler deploy` would. Deploys nothing.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../rig/command-line.ts';
import { findDeploymentFaults } from './deployment-check.ts';
import { secretsFileOf } from './local/secrets.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: npm run deploy:dry -- [--env NAME] [--secrets-file FILE] [--config FILE]

  --env           an environment of wrangler.toml, e.g. staging
  --secrets-file  the secrets as wrangler deploy takes them (NAME=value lines or JSON): checked, not sent;
                  otherwise secrets.env, or secrets.NAME.env, if npm run secrets made it
  --config        another file in place of wrangler.toml`;

const root = fileURLToPath(new URL('..', import.meta.url));

const options = {
  env: { type: 'string' },
  'secrets-file': { type: 'string' },
  config: { type: 'string', default: join(root, 'wrangler.toml') },
} as const;
const command = { name: 'npm run deploy:dry', usage, options };
const { env: environment, config: configPath, ...values } = readCommandLine(command, (parsed) => parsed.values);
const usualFile = secretsFileOf(environment);
const secretsFile = values['secrets-file'] ?? (existsSync(usualFile) ? usualFile : undefined);
process.on('uncaughtException', fail);
const faults = findDeploymentFaults({ configPath, environment, secretsFile });
if (faults.length > 0) fail(`This is not ready:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
const wrangler = join(root, 'node_modules/wrangler/bin/wrangler.js');
const place = ['--config', configPath, ...(environment === undefined ? [] : ['--env', environment])];
const { status } = spawnSync(process.execPath, [wrangler, 'deploy', '--dry-run', '--outdir', 'dist', ...place], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, WRANGLER_SEND_METRICS: 'false' },
});
if (status !== 0) process.exit(status ?? 1);
const secrets =
  secretsFile === undefined ? `secrets were not looked at (there is no ${usualFile})` : `so is ${secretsFile}`;
print(`\nSettings are right; ${secrets}.`);
