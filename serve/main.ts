// `npm run serve`: the commands of a server of one's own. Reads the command line and says what went wrong; the work is in the other
// files of this folder.
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { fail, print } from '../dev/terminal.ts';
import { backUp, restore } from './backup.ts';
import { prepareBuild } from './build.ts';
import { initialise } from './init.ts';
import { runServer } from './run.ts';
import { ProblemsError } from './settings.ts';
import { upgrade } from './upgrade.ts';

const usage = `Usage: npm run serve -- [COMMAND] --data DIR

  run    runs Latchwork with the data and settings in DIR, until SIGTERM; the command if none is named
  init   --host NAME [--cert FILE --key FILE] [--broker URL]: makes DIR with settings.env and secrets.env
  build  builds the Worker ahead of the first run, where the program's folder is read-only later

  backup   --to FILE, or --to FOLDER [--keep N]: all data, settings and secrets of one moment, also while the server runs
  restore  FILE [--force]: the data of a backup; --force moves data that are there aside
  upgrade  run by the new program in a folder beside the present one: takes DIR over, or gives it back if it does not get ready

  --host    the name or address that devices and applications reach this machine by
  --cert    PEM file: the certificate for --host with its chain; --key: its key. Without them a reverse proxy ends TLS
  --broker  your MQTT broker, such as mqtts://broker.example.com:8883; without one, devices connect to the gateway

  Exit codes: 0 stopped, 1 failed, 2 something has to be changed first.`;

const needsChange = 2;

const options = {
  data: { type: 'string' },
  host: { type: 'string' },
  cert: { type: 'string' },
  key: { type: 'string' },
  broker: { type: 'string' },
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
  process.stderr.write(error.problems.map((problem) => `${problem}\n`).join(''));
  process.exit(needsChange);
}

async function runCommand(): Promise<void> {
  if (command === 'build') await prepareBuild();
  else if (command === 'init') await initialise(dataDir(), values);
  else if (command === 'run') await runServer(dataDir());
  else if (command === 'backup') print(await backUp(usedDir(), needed(values.to, '--to FILE'), readKeep()));
  else if (command === 'restore') print(await restore(dataDir(), needed(argument, 'FILE'), values.force));
  else if (command === 'upgrade') print(await upgrade(usedDir()));
  else throw new ProblemsError([`there is no command ${command}: npm run serve -- --help shows what there is`]);
}

function dataDir(): string {
  return resolve(needed(values.data, '--data DIR, the folder with data and settings,'));
}

/** Files that another user writes could not be read by the server. */
function usedDir(): string {
  const dir = dataDir();
  const owner = statSync(dir, { throwIfNoEntry: false })?.uid;
  if (owner === process.getuid?.()) return dir;
  throw new ProblemsError([
    owner === undefined ? `${dir} is missing` : `run it as the user who owns ${dir} (${owner})`,
  ]);
}

function readKeep(): number | undefined {
  const keep = values.keep === undefined ? undefined : Number(values.keep);
  if (keep === undefined || (Number.isInteger(keep) && keep > 0)) return keep;
  throw new ProblemsError(['--keep takes a whole number from 1']);
}

function needed(value: string | undefined, name: string): string {
  if (value === undefined) throw new ProblemsError([`${name} is missing`]);
  return value;
}
