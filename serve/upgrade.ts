// `serve upgrade`: a newer program takes the data over from the running one, and gives them back if it does not get ready.
// DIR/upgrade.json says how far that is, and any start goes on from there. Programs lie in folders side by side.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { holderOf, readJson, writeJson } from '../dev/local/state-dir.ts';
import { eventually } from '../rig/changes.ts';
import { prepareBuild } from './build.ts';
import * as data from './data.ts';
import { ProblemsError } from './settings.ts';

/** `begin`: `to` shall start. `trying`: it has started and is not ready. `from` and `to`: folders of programs. */
const upgradeSchema = z.object({
  state: z.enum(['begin', 'trying', 'done', 'failed']),
  from: z.string(),
  to: z.string(),
  reason: z.string().default(''),
});
type Upgrade = z.infer<typeof upgradeSchema>;

/** After its parts have started. */
const readyWithinMs = 60_000;
const endsWithinMs = 300_000;
const own = basename(data.programRoot);
const pathOf = (dataDir: string) => join(dataDir, data.upgradeFile);
/** Beside the data. An upgrade deletes those of the one before. */
const [formerData, failedData] = ['before-upgrade', 'failed-upgrade'];

/** The command; the new program runs it. Resolves when that serves. @throws Error if the former one goes on */
export async function upgrade(dataDir: string): Promise<string> {
  const from = data.readVersion(dataDir)?.folder;
  if (from === undefined || from === own || !existsSync(startOf(from)))
    throw new ProblemsError(
      `put this program beside the one that serves, ${from ?? 'which never ran'}, in a new folder`,
    );
  refuseNewer(dataDir);
  await prepareBuild();
  const server = await holderOf(dataDir);
  for (const name of [formerData, failedData]) rmSync(join(dataDir, name), { recursive: true, force: true });
  writeJson(pathOf(dataDir), { state: 'begin', from, to: own });
  if (server === undefined) return `No server runs with ${dataDir}: its next start goes on with ${own}.`;
  process.kill(server, startAgainSignal);
  const hasEnded = () => ['done', 'failed'].includes(readUpgrade(dataDir).state);
  await eventually('the end of the upgrade. See the log of the server; its next start ends it', hasEnded, endsWithinMs);
  const { state, reason } = readUpgrade(dataDir);
  if (state === 'failed') throw new Error(`${from} serves again, with the data from before. ${reason}`);
  return `${own} serves now. ${join(dataDir, formerData)} has the data from before.`;
}

/** Tells the server to stop in order and to start again in the same process. */
export const startAgainSignal = 'SIGUSR2';

/**
 * The first step of each start: goes on to the program that the data belong to, and ends an upgrade that was cut off.
 * @throws ProblemsError if a newer program wrote the data
 */
export function enterProgram(dataDir: string): void {
  rollBack(dataDir, 'The new program ended before it was ready.');
  const { state, to } = readUpgrade(dataDir);
  if (state === 'begin' && to !== own) goOnWith(to);
  const version = data.readVersion(dataDir);
  // A unit may name the former program as long as that is there.
  if (version !== undefined && data.isNewer(version) && version.folder !== own && existsSync(startOf(version.folder)))
    goOnWith(version.folder);
  refuseNewer(dataDir);
  if (state !== 'begin') return;
  const former = join(dataDir, formerData);
  const packed = `${former}.tar`;
  data.packData(dataDir, packed);
  data.unpackData(packed, former);
  rmSync(packed);
  // Before this program changes anything.
  spawnSync('sync');
  noteUpgrade(dataDir, 'trying');
}

/** The data belong to this program from now on. */
export function noteProgram(dataDir: string): void {
  writeJson(join(dataDir, 'version.json'), data.ownVersion());
}

/** `findMissing` says what the server still waits for. @throws Error if it waits too long after an upgrade */
export async function endUpgrade(dataDir: string, findMissing: () => Promise<string | undefined>): Promise<void> {
  if (readUpgrade(dataDir).state !== 'trying') return;
  let missing: string | undefined;
  const isReady = async () => (missing = await findMissing()) === undefined;
  await eventually(() => `the server is ready: ${missing}`, isReady, readyWithinMs);
  noteUpgrade(dataDir, 'done');
}

/** Unless the upgrade has ended: brings the data from before back and goes on with the former program. */
export function rollBack(dataDir: string, reason: string): void {
  const { state, from } = readUpgrade(dataDir);
  if (state !== 'trying') return;
  data.replaceData(dataDir, join(dataDir, formerData), join(dataDir, failedData));
  noteUpgrade(dataDir, 'failed', reason);
  if (from !== own) goOnWith(from);
}

function noteUpgrade(dataDir: string, state: Upgrade['state'], reason = ''): void {
  writeJson(pathOf(dataDir), { ...readUpgrade(dataDir), state, reason });
}

function refuseNewer(dataDir: string): void {
  const version = data.readVersion(dataDir);
  if (version === undefined || !data.isNewer(version)) return;
  const advice = `start that program, in a folder ${version.folder} beside this one, or restore a backup of this one`;
  const ours = data.ownVersion().program;
  throw new ProblemsError(`Latchwork ${version.program} wrote ${dataDir}, and this is ${ours}: ${advice}`);
}

/** This process becomes the other program: for systemd or a terminal the server has not ended. */
export function goOnWith(folder = own): never {
  const ofProgram = join(data.programRoot, '..', folder, 'node_modules/.bin/node');
  const node = existsSync(ofProgram) ? ofProgram : process.execPath;
  if (process.execve === undefined) throw new Error('This system cannot put a program in the place of another');
  return process.execve(node, [node, ...process.execArgv, startOf(folder), ...process.argv.slice(2)], process.env);
}

function startOf(folder: string): string {
  return join(data.programRoot, '..', folder, 'serve/main.ts');
}

function readUpgrade(dataDir: string): Upgrade {
  return readJson(pathOf(dataDir), upgradeSchema) ?? { state: 'done', from: own, to: own, reason: '' };
}
