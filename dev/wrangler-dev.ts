// `npm run dev`: plain `wrangler dev` with migrations applied and settings in .dev.vars, for work on the API alone. Without
// a broker: devices connect to the Worker itself. Its data lies in .wrangler, apart from that of `npm start`.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { readCommandLine } from '../rig/command-line.ts';
import { writeDevConfig, writeDevVars } from './local/secrets.ts';
import { checkVars, readSettings, readVars } from './local/settings.ts';
import { fail, print } from './terminal.ts';
import { root, runWrangler } from './wrangler.ts';

const usage = `Usage: npm run dev

  Plain wrangler dev with a local database: the API alone, built again when a file changes, without broker and bridge.
  Settings come from .dev.vars, which the first run writes, and from the environment: API_PORT (8787), PUBLIC_HOST and every var
  of wrangler.toml.`;

readCommandLine({ name: 'npm run dev', usage, options: {} }, () => undefined);
process.on('uncaughtException', fail);
const { ports, publicHost } = readSettings(process.env);
const host = publicHost === undefined ? '127.0.0.1' : '0.0.0.0';
if (writeDevVars(root)) print('Settings and secrets for this machine are in .dev.vars.');
const names = Object.keys(readVars());
const chosen = Object.entries(process.env).filter(([name]) => names.includes(name));
const vars = { ...Object.fromEntries(chosen), ...(publicHost !== undefined && { MQTT_HOST: publicHost }) };
checkVars({ ...parseEnv(readFileSync(join(root, '.dev.vars'), 'utf8')), ...vars });
// With CI set it does not ask before it applies the migrations.
const migrated = await runWrangler(['d1', 'migrations', 'apply', 'latchwork', '--local'], { CI: 'true' });
if (migrated !== 0) process.exit(migrated ?? 0);
const place = ['--port', String(ports.api.port), '--ip', host];
const overrides = Object.entries(vars).flatMap(([name, value]) => ['--var', `${name}:${value}`]);
const ended = await runWrangler(['dev', '--config', writeDevConfig(root), ...place, ...overrides]);
process.exit(ended ?? 0);
