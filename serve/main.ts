// `npm run serve`: the commands of a server of one's own. Reads the command line and says what went wrong; the work is in the other
// files of this folder.
import { chmodSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { loadSecrets, writeOnce } from '../dev/local/secrets.ts';
import { fail, print } from '../dev/terminal.ts';
import { prepareBuild } from './build.ts';
import { runServer } from './run.ts';
import { ProblemsError, readServer, settingsExample, settingsFile } from './settings.ts';

const usage = `Usage: npm run serve -- [COMMAND] --data DIR

  run    runs Latchwork with the data and settings in DIR until SIGTERM; the command if none is named
  init   --host NAME: makes DIR with settings.env and secrets.env; NAME is what devices reach this machine by
  build  builds the Worker ahead of the first run, for a program's folder that is read-only later

  Exit codes: 0 stopped, 1 failed, 2 something has to be changed first.`;

const needsChange = 2;

const options = {
  data: { type: 'string' },
  host: { type: 'string' },
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
  else if (command === 'init') await initialise(dataDir());
  else if (command === 'run') await runServer(dataDir());
  else throw new ProblemsError([`there is no command ${command}: npm run serve -- --help shows what there is`]);
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
  if (values.data === undefined) throw new ProblemsError(['--data DIR is missing: the folder with data and settings']);
  return resolve(values.data);
}
