// `npm run deploy:dry`: refuses what would not run, and builds the Worker as `wrangler deploy` would. Deploys nothing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { findDeploymentFaults } from './deployment-check.ts';
import { secretsFileOf } from './local/secrets.ts';
import { fail, print } from './terminal.ts';
import { root, runWrangler } from './wrangler.ts';

const usage = `Usage: npm run deploy:dry -- [--env NAME] [--secrets-file FILE] [--config FILE]

  --env           an environment of wrangler.toml, e.g. staging
  --secrets-file  the secrets as wrangler deploy takes them (NAME=value lines or JSON): checked, not sent;
                  otherwise secrets.env, or secrets.NAME.env, if npm run secrets made it
  --config        another file in place of wrangler.toml`;

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
const place = ['--config', configPath, ...(environment === undefined ? [] : ['--env', environment])];
const status = await runWrangler(['deploy', '--dry-run', '--outdir', 'dist', ...place]);
if (status !== 0) process.exit(status ?? 1);
const secrets =
  secretsFile === undefined ? `secrets were not looked at (there is no ${usualFile})` : `so is ${secretsFile}`;
print(`\nSettings are right; ${secrets}.`);
