// `serve run`: starts Worker, gateway and bridge of a server, watches them and stops them in order. Only calls the other files of this
// folder, the supervisor and the parts.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { claimStateDir } from '../dev/local/state-dir.ts';
import { createSupervisor, type Supervisor } from '../dev/local/supervisor.ts';
import { whenToldToStop } from '../dev/stopping.ts';
import { askHealth, describeFailure } from '../rig/clients/api.ts';
import { bridgePart, gatewayPart, newest, servicePart, workerPart } from '../rig/services/parts.ts';
import { reconcileRestored } from './backup.ts';
import { prepareBuild } from './build.ts';
import type { FrontOptions } from './front.ts';
import { log, logLines } from './log-lines.ts';
import { tellSystemd, watchServer } from './notices.ts';
import { readServer, siteLimits, type Server } from './settings.ts';
import { endUpgrade, enterProgram, goOnWith, noteProgram, rollBack, startAgainSignal } from './upgrade.ts';

/** A gateway closes its connections in order; a bridge has to finish what it sends. */
const patienceMs = 10_000;
/** Of each Node process. Those of workerd end with the unit's or container's limit. */
const nodeMemory = '--max-old-space-size=512';

/** Returns when it was told to stop. @throws ProblemsError, or Error if a part does not start */
export async function runServer(dataDir: string): Promise<void> {
  const stopping = new AbortController();
  whenToldToStop(() => stopping.abort());
  process.stdout.on('error', () => stopping.abort());
  process.on(startAgainSignal, () => stopping.abort(startAgainSignal));
  try {
    if (existsSync(dataDir)) await claimStateDir(dataDir);
    enterProgram(dataDir);
    await serve(dataDir, stopping.signal);
  } catch (error) {
    rollBack(dataDir, describeFailure(error));
    throw error;
  }
  if (stopping.signal.reason === startAgainSignal) goOnWith();
  tellSystemd('STOPPING=1');
}

async function serve(dataDir: string, stopping: AbortSignal): Promise<void> {
  const untilStopping = new Promise((resolve) => stopping.addEventListener('abort', resolve));
  const server = readServer(dataDir, process.env);
  noteProgram(dataDir);
  process.env['NODE_OPTIONS'] ??= nodeMemory;
  process.env['NODE_COMPILE_CACHE'] = join(dataDir, 'compile-cache');
  const buildDir = await prepareBuild();
  const supervisor = createSupervisor(dataDir, logLines, patienceMs);
  process.on('exit', supervisor.killAll);
  try {
    await Promise.race([startParts(server, buildDir, supervisor), untilStopping]);
    const secret = newest(server.place.secrets.OPERATOR_SECRETS);
    const url = `http://127.0.0.1:${server.place.ports.api}`;
    await Promise.race([endUpgrade(dataDir, () => askHealth(url, secret)), untilStopping]);
    if (!stopping.aborted) {
      log('info', 'serving');
      tellSystemd('--ready');
      watchServer(url, secret);
      reconcileRestored(dataDir, url, secret).then(
        (result) => result !== undefined && log('info', 'reconciled', { result }),
        (error: unknown) => log('error', 'cannot_reconcile', { problem: describeFailure(error) }),
      );
    }
    await untilStopping;
    log('info', 'stopping');
  } finally {
    await supervisor.stop();
  }
}

/** Worker first: it is the last to be stopped. Resolves when all parts are connected. */
async function startParts(
  { place, https, gateway, bridge }: Server,
  buildDir: string,
  supervisor: Supervisor,
): Promise<void> {
  await supervisor.start(workerPart(place, buildDir, siteLimits.ofWorker));
  if (gateway !== undefined) await supervisor.start(gatewayPart(place, gateway));
  if (bridge !== undefined) await supervisor.start(bridgePart(place, bridge));
  if (https === undefined) return;
  const options: FrontOptions = { ...https, apiPort: place.ports.api };
  await supervisor.start(servicePart('front', { FRONT_OPTIONS: JSON.stringify(options) }));
}
