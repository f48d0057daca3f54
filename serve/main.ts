// `npm run serve`: the commands of a server of one's own. Reads the command line and says what went wrong; the work is in the other
// files of this folder.
import { chmodSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { loadSecrets, writeOnce } from '../dev/local/secrets.ts';
import { fail, print } from '../dev/terminal.ts';
import { backUp, restore } from './backup.ts';
import { prepareBuild } from './build.ts';
import { runServer } from './run.ts';
import { ProblemsError, readServer, settingsExample, settingsFile } from './settings.ts';
import { upgrade } from './upgrade.ts';

const usage = `Usage: npm run serve -- [COMMAND] --data DIR

  run    runs Latchwork with the data and settings in DIR until SIGTERM; the command if none is named
  init   --host NAME: makes DIR with settings.env and secrets.env; NAME is what devices reach this machine by
  build  builds the Worker ahead of the first run, for a program's folder that is read-only later

  backup   --to FILE, or --to FOLDER [--keep N]: all data, settings and secrets of one moment, also while the server runs
  restore  FILE [--force]: brings the data of a backup; --force moves data that are there aside
  upgrade  for a new program beside the present one: takes DIR over, or gives it back if it does not get ready

  Exit codes: 0 stopped, 1 failed, 2 something has to be changed first.`;

const needsChange = 2;

const options = {
  data: { type: 'string' },
  host: { type: 'string' },
  to: { type: 'string' },
  keep: { type: 'string' },
  force: { type: 'boolean', default: false },
} as const;

const { command, argument, values } = readCommandLine(
  { name: 'npm run serve', usage, options, allowPositionals: true },
  ({ values, positionals: [command = 'run', ...rest] }) => {
    const [argument] = command === 'restore' ? rest.splice(0, 1) : [];
    if (rest.length > 0) throw new Error(`"${rest.join(' ')}" is too much`);
    return { command, argument, values };
  },
);

try {
  await runCommand();
  process.exit();
} catch (error) {
  if (!(error instanceof ProblemsError)) fail(error);
  process.stderr.write(`${error.message}\n`);
  process.exit(needsChange);
}

async function runCommand(): Promise<void> {
  if (command === 'build') await prepareBuild();
  else if (command === 'init') await initialise(dataDir());
  else if (command === 'run') await runServer(dataDir());
  else if (command === 'backup') print(await backUp(ownDataDir(), needed(values.to, '--to FILE'), readKeep()));
  else if (command === 'restore') print(await restore(ownDataDir(), needed(argument, 'FILE'), values.force));
  else if (command === 'upgrade') print(await upgrade(ownDataDir()));
  else throw new ProblemsError(`there is no command ${command}: npm run serve -- --help shows what there is`);
}

/** What is there stays as it is. */
async function initialise(stateDir: string): Promise<void> {
  loadSecrets(stateDir);
  chmodSync(stateDir, 0o700);
  const path = join(stateDir, settingsFile);
  const isNew = writeOnce(path, settingsExample.replace(/^MQTT_HOST=$/m, `MQTT_HOST=${values.host ?? ''}`));
  print(`${path} ${isNew ? 'is made: look through it' : 'stays as it is'}. Building the Worker.`);
  readServer(stateDir, {});
  await prepareBuild();
  print(`Now run: npm run serve -- --data ${stateDir}`);
  print('In serve are a unit for systemd, and examples of a reverse proxy for Caddy and nginx.');
}

function dataDir(): string {
  return resolve(needed(values.data, '--data DIR, the folder with data and settings,'));
}

/** The server could not read files of another user. */
function ownDataDir(): string {
  const owner = statSync(dataDir(), { throwIfNoEntry: false })?.uid;
  if (owner === undefined || owner === process.getuid?.()) return dataDir();
  throw new ProblemsError(`run it as the user who owns ${dataDir()}: sudo -u '#${owner}' ...`);
}

function readKeep(): number | undefined {
  const keep = values.keep === undefined ? undefined : Number(values.keep);
  if (keep === undefined || (Number.isInteger(keep) && keep > 0)) return keep;
  throw new ProblemsError('--keep takes a whole number from 1');
}

function needed(value: string | undefined, name: string): string {
  if (value === undefined) throw new ProblemsError(`${name} is missing`);
  return value;
}
