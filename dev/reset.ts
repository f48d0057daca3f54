// `npm run reset`: deletes the state folder of `npm start`, with database, objects, secrets and logs. Deletes nothing else, and
// nothing while `npm start` uses it.
import { existsSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { claimStateDir } from './local/state-dir.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: npm run reset

  Deletes the state folder of npm start: database, objects, secrets and logs. STATE_DIR names another one (.latchwork).`;

readCommandLine({ name: 'npm run reset', usage, options: {} }, () => undefined);
const stateDir = resolve(process.env['STATE_DIR'] ?? '.latchwork');
/** Only a folder that `npm start` has made has it. */
const mark = join(stateDir, 'secrets.env');

process.on('uncaughtException', fail);
if (!existsSync(stateDir)) print(`There is nothing in ${stateDir}.`);
else if (!existsSync(mark)) fail(`${stateDir} was not made by npm start: nothing is deleted`);
else {
  await claimStateDir(stateDir);
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 3 });
  print(`Deleted ${stateDir}; the next npm start begins anew.`);
}
