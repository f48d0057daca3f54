// A server as `npm run serve` runs it, with production limits: its parts are killed under load, and backups are taken under load.
// What was acknowledged is there afterwards; what a backup has is of one moment.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Mosquitto } from '../../../rig/brokers/mosquitto.ts';
import { activate, addProduct, signUp } from '../../../rig/clients/accounts.ts';
import { ApiError, connectApi } from '../../../rig/clients/api.ts';
import { findFreePort } from '../../../rig/ports.ts';
import { membersOfGroup } from '../../../rig/process-group.ts';
import { changeSettings, prepareServer, serveMeanwhile, ServerRun } from '../../../rig/services/server-run.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';
import type { Finding, Scenario } from '../rig/scenario.ts';
import { ServerLoad, type Write } from '../rig/server-load.ts';

const victims = ['workerd', 'worker', 'gateway', 'bridge', 'server'] as const;

export const serverKills: Scenario = {
  name: 'server-kills',
  title: 'workerd, its parent, gateway, bridge and supervisor of a server are killed in turn under load',
  seenBy: 'the API: properties, groups, lists of commands',
  run: async ({ random, count }) => {
    const kills = count(50, victims.length);
    const broker = await Mosquitto.start();
    const dataDir = await prepareServer({ MQTT_URL: broker.url });
    let server = await ServerRun.start(dataDir);
    const load = await ServerLoad.start(server, { direct: 4, viaBroker: 4, groups: 3, absent: 2 }, broker.port);
    for (let kill = 0; kill < kills; kill += 1) {
      await sleep(random.between(500, 3_000));
      const victim = victims[kill % victims.length] ?? 'server';
      if (victim === 'server') {
        await server.kill('SIGKILL');
        server = await ServerRun.start(dataDir);
      } else if (victim === 'workerd') {
        const workerd = membersOfGroup(server.parts['worker']?.pid ?? 0).find(({ name }) => name === 'workerd');
        process.kill(workerd?.pid ?? 0, 'SIGKILL');
      } else process.kill(server.parts[victim]?.pid ?? 0, 'SIGKILL');
    }
    await load.stop();
    const writes = await load.look(server, true);
    await server.kill('SIGTERM');
    await broker.stop('SIGKILL');
    const lost = writes.filter(({ doneAtMs, isPresent }) => doneAtMs !== undefined && !isPresent);
    const failures = lost.length > 0 ? [`${lost.length} acknowledged writes lost`] : [];
    return [{ label: `${kills} kills`, facts: [`${load.acknowledged} acknowledged writes`], failures }];
  },
};

export const serverBackups: Scenario = {
  name: 'server-backups',
  title: 'backups of a server under load, each restored to a folder of its own',
  seenBy: 'the API of the restored server',
  run: async ({ count, say }) => {
    const [backups, idle] = [count(5, 1), count(180, 20)];
    const server = await ServerRun.start(await prepareServer({ LIMITS: 'devicesPerProduct=5000' }));
    const load = await ServerLoad.start(server, { direct: 8, viaBroker: 0, groups: 4, absent: 2 });
    await activateIdle(server, idle);
    const findings: Finding[] = [];
    for (let backup = 1; backup <= backups; backup += 1) {
      await sleep(3_000);
      const file = join(makeTempDir('backup'), 'backup.tar.gz');
      const startedAtMs = performance.now();
      const { status, output } = await serveMeanwhile(['backup', '--data', server.dataDir, '--to', file]);
      const endedAtMs = performance.now();
      say(output.trim());
      await sleep(1_000);
      const failures = status === 0 ? await judge(load, file, startedAtMs, endedAtMs) : [output];
      findings.push({ label: `backup ${backup}`, facts: [`${load.acknowledged} acknowledged writes`], failures });
    }
    await load.stop();
    await server.kill('SIGTERM');
    return findings;
  },
};

/** Objects of devices that do nothing. A network may leave 200 of them unused. */
async function activateIdle({ url }: ServerRun, count: number): Promise<void> {
  const owner = await signUp((credentials) => connectApi(url, credentials));
  const productKey = await addProduct(owner);
  for (let done = 0; done < count; done += 1) {
    const answer = await activate(owner.api, productKey, `IDLE-${done}`).catch((error: unknown) => error);
    if (!(answer instanceof Error)) continue;
    if (!(answer instanceof ApiError) || answer.code !== 429) throw answer;
    await sleep(5_000);
    done -= 1;
  }
}

/** Restores the backup to another folder and compares. There is a moment before which all is there and after which nothing is. */
async function judge(load: ServerLoad, file: string, startedAtMs: number, endedAtMs: number): Promise<string[]> {
  const dataDir = join(makeTempDir('restored'), 'data');
  const { status, output } = await serveMeanwhile(['restore', file, '--data', dataDir]);
  if (status !== 0) return [output];
  const ports = ['API_PORT', 'GATEWAY_PORT', 'HEALTH_PORT'];
  const free = await Promise.all(ports.map(async (name) => [name, String(await findFreePort())]));
  changeSettings(dataDir, Object.fromEntries(free) as Record<string, string>);
  const restored = await ServerRun.start(dataDir);
  const { result = '' } = await restored.untilLogged('reconciled');
  const writes = await load.look(restored, false);
  await restored.kill('SIGTERM');
  const missing = writes.filter(({ isPresent }) => !isPresent);
  const lastPresentMs = Math.max(0, ...writes.filter(({ isPresent }) => isPresent).map(({ sentAtMs }) => sentAtMs));
  const isBefore = ({ doneAtMs }: Write, timeMs: number) => doneAtMs !== undefined && doneAtMs < timeMs;
  const failures: string[] = [];
  const refuse = (count: number, what: string) => count > 0 && failures.push(`${count} ${what}`);
  refuse(
    missing.filter((write) => isBefore(write, startedAtMs)).length,
    'missing that were acknowledged before it began',
  );
  refuse(missing.filter((write) => isBefore(write, lastPresentMs)).length, 'missing before one that it has');
  if (lastPresentMs > endedAtMs) failures.push('it has a write that was sent after its end');
  if (!/ 0 have no session.* 0 belonged.* 0 could not/.test(String(result))) failures.push(String(result));
  return failures;
}
