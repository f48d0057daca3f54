// `npm run serve`: the commands of a server of one's own. Reads the command line and says what went wrong; the work is in the other
// files of this folder.
import { resolve } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { fail } from '../dev/terminal.ts';
import { prepareBuild } from './build.ts';
import { initialise } from './init.ts';
import { runServer } from './run.ts';
import { ProblemsError } from './settings.ts';

const usage = `Usage: npm run serve -- [COMMAND] --data DIR

  run    runs Latchwork with the data and settings in DIR, until SIGTERM; the command if none is named
  init   --host NAME [--cert FILE --key FILE] [--broker URL]: makes DIR with settings.env and secrets.env
  build  builds the Worker ahead of the first run, where the program's folder is read-only later

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
} as const;

const { command, values } = readCommandLine(
  { name: 'npm run serve', usage, options, allowPositionals: true },
  ({ values, positionals: [command = 'run', ...rest] }) => {
    if (rest.length > 0) throw new Error(`"${rest.join(' ')}" is too much`);
    return { command, values };
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
  else throw new ProblemsError([`there is no command ${command}: npm run serve -- --help shows what there is`]);
}

function dataDir(): string {
  if (values.data === undefined) throw new ProblemsError(['--data DIR is missing: the folder with data and settings']);
  return resolve(values.data);
}
