// The data of a server: backup, restore and upgrade, with real servers, and programs that lie side by side.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { expect, onTestFinished, test } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { activate, addProduct, signUp, type Session } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { makeMaker } from '../../rig/clients/firmware.ts';
import { membersOfGroup } from '../../rig/process-group.ts';
import { copyProgram } from '../../rig/services/program-copy.ts';
import { prepareServer, serveMeanwhile, ServerRun } from '../../rig/services/server-run.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';

const saying = (text: string | RegExp): unknown => expect.stringMatching(text);

async function startServer(dataDir: string, program?: string): Promise<ServerRun> {
  const server = new ServerRun(dataDir, {}, [], program);
  onTestFinished(async () => void (await server.kill('SIGTERM')));
  await server.untilLogged('serving');
  return server;
}

/** What a device of the product is offered and reads. */
async function readImage({ url, mqttUrl }: ServerRun, maker: Session, productKey: string): Promise<Buffer> {
  const { deviceId, mqtt } = await activate(maker.api, productKey, 'SN-1');
  const { username, password } = mqtt;
  const device = await connectAsync(mqttUrl, { username, password, clientId: username });
  onTestFinished(() => device.endAsync());
  await device.subscribeAsync(`/sys/${productKey}/${deviceId}/thing/ota/upgrade`, { qos: 1 });
  const offer = new Promise<Buffer>((resolve) => void device.once('message', (_, payload) => resolve(payload)));
  const json = { version: '2', waves: [{ devices: [deviceId] }] };
  await dataOf(maker.api.products[':productKey'].campaigns.$post({ param: { productKey }, json }));
  const upgrade = JSON.parse((await offer).toString()) as { url: string };
  return Buffer.from(await (await fetch(url + upgrade.url)).arrayBuffer());
}

test('a backup of a running server is restored, and numbers that were given out later do not come again', async () => {
  const dataDir = await prepareServer();
  const server = await startServer(dataDir);
  const connect = () => signUp((credentials) => connectApi(server.url, credentials));
  const [before, folder] = [await connect(), makeTempDir('backups')];
  const [productKey, image] = [await addProduct(before), randomBytes(100_000)];
  await (await makeMaker(server.url, before, productKey)).addFirmware('2', image);
  for (let number = 0; number < 3; number += 1) {
    const { status, output } = await serveMeanwhile(['backup', '--data', dataDir, '--to', folder, '--keep', '2']);
    expect([status, output]).toEqual([0, expect.stringMatching(/has 0 devices. The parts stood still for \d+ ms/)]);
  }
  const files = readdirSync(folder);
  expect(files).toHaveLength(2);
  const file = join(folder, files.sort()[0] ?? '');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const after = await connect();
  expect(after.user.userId - before.user.userId).toBe(1);
  const restore = (...more: string[]) => serveMeanwhile(['restore', file, '--data', dataDir, ...more]);
  expect(await restore('--force')).toMatchObject({ status: 2, output: saying('stop the server') });
  await server.kill('SIGTERM');
  expect(await restore()).toMatchObject({ status: 2, output: saying('--force moves them aside') });
  expect(await restore('--force')).toMatchObject({ status: 0 });
  const aside = readdirSync(dataDir).find((name) => name.startsWith('replaced-')) ?? '';
  expect(readdirSync(join(dataDir, aside))).toEqual(expect.arrayContaining(['worker', 'secrets.env', 'settings.env']));

  const again = await startServer(dataDir);
  await again.untilLogged('reconciled');
  const signIn = (account: typeof before) => signUp((credentials) => connectApi(again.url, credentials), account);
  const maker = await signIn(before);
  expect(maker).toMatchObject({ isNew: false, user: { userId: before.user.userId } });
  expect(await readImage(again, maker, productKey)).toEqual(image);
  const { isNew, user } = await signIn(after);
  expect([isNew, user.userId > before.user.userId + 1_000_000]).toEqual([true, true]);
});

test('a damaged, a foreign and a newer backup are refused, and the data stay', async () => {
  const dataDir = await prepareServer();
  const server = await startServer(dataDir);
  await server.kill('SIGTERM');
  const folder = makeTempDir('backups');
  const file = join(folder, 'backup.tar.gz');
  const tried = ['restore', file, '--data', join(folder, 'data')];
  expect(await serveMeanwhile(['backup', '--data', dataDir, '--to', file])).toMatchObject({ status: 0 });
  expect(await serveMeanwhile(['backup', '--data', dataDir, '--to', file])).toMatchObject({ status: 2 });
  truncateSync(file, statSync(file).size - 100);
  expect(await serveMeanwhile(tried)).toMatchObject({ status: 1, output: saying('tar: ') });
  spawnSync('tar', ['-czf', file, '-C', folder, '.']);
  expect(await serveMeanwhile(tried)).toMatchObject({ status: 1, output: saying('no backup') });

  const version = readFileSync(join(dataDir, 'version.json'), 'utf8');
  writeFileSync(join(dataDir, 'version.json'), version.replace(/"program": "[^"]+"/, '"program": "99.0.0"'));
  await serveMeanwhile(['backup', '--data', dataDir, '--to', `${file}.newer`]);
  tried[1] = `${file}.newer`;
  expect(await serveMeanwhile(tried)).toMatchObject({ status: 2, output: saying('Latchwork 99.0.0') });
  expect(existsSync(join(folder, 'data/worker'))).toBe(false);
  const started = await serveMeanwhile(['run', '--data', dataDir]);
  expect(started).toMatchObject({ status: 2, output: saying(/99\.0\.0 wrote .* start that program/) });
});

test('a backup that is killed while the parts stand still lets them go on', async () => {
  const part = spawn(process.execPath, ['-e', 'setInterval(() => {}, 100)'], { detached: true });
  onTestFinished(() => void part.kill('SIGKILL'));
  const pid = part.pid ?? 0;
  const module = join(import.meta.dirname, '../../dev/local/suspend.ts');
  const script = `const { whileSuspended } = await import('${module}');
    whileSuspended([${pid}], () => process.kill(process.pid, 'SIGKILL'));`;
  expect(spawnSync(process.execPath, ['--input-type=module', '-e', script]).signal).toBe('SIGKILL');
  const stateOf = () => membersOfGroup(pid)[0]?.stat[0];
  expect(stateOf()).toBe('T');
  await eventually('the part goes on', () => stateOf() !== 'T');
});

test('a newer program takes over, and one that does not get ready gives everything back', async () => {
  const dataDir = await prepareServer();
  const releases = makeTempDir('releases');
  const more = { '9000_later.sql': 'CREATE TABLE later (id INTEGER PRIMARY KEY);' };
  const program = (version: string, migrations = {}) => copyProgram(join(releases, `v${version}`), version, migrations);
  const [first, second] = [program('1.0.0'), program('1.1.0', more)];
  const broken = program('1.2.0', { ...more, '9001_broken.sql': 'BROKEN;' });
  const server = await startServer(dataDir, first);
  const account = await signUp((credentials) => connectApi(server.url, credentials));
  const upgradeTo = (command: string) => serveMeanwhile(['upgrade', '--data', dataDir], command);
  const folderNow = () =>
    (JSON.parse(readFileSync(join(dataDir, 'version.json'), 'utf8')) as { folder: string }).folder;
  const isThere = async () => (await signUp((credentials) => connectApi(server.url, credentials), account)).isNew;

  expect(await upgradeTo(second)).toMatchObject({ status: 0, output: saying('v1.1.0 serves now') });
  expect([folderNow(), await isThere(), server.hasExited]).toEqual(['v1.1.0', false, false]);
  expect(await upgradeTo(broken)).toMatchObject({ status: 1, output: saying('v1.1.0 serves again') });
  const untilServed = () =>
    eventually('the former program serves', () =>
      isThere().then(
        (isNew) => !isNew,
        () => false,
      ),
    );
  await untilServed();
  expect([folderNow(), server.hasExited]).toEqual(['v1.1.0', false]);
  expect(await upgradeTo(first)).toMatchObject({ status: 2, output: saying('Latchwork 1.1.0 wrote') });

  // Without a server, the next start begins. The new program is killed before it is ready; the unit still names the first one.
  await server.kill('SIGTERM');
  expect(await upgradeTo(broken)).toMatchObject({ status: 0, output: saying('its next start') });
  const killed = new ServerRun(dataDir, {}, [], first);
  const stateNow = () => (JSON.parse(readFileSync(join(dataDir, 'upgrade.json'), 'utf8')) as { state: string }).state;
  await eventually('the new program tries', () => stateNow() === 'trying');
  await killed.kill('SIGKILL');
  await startServer(dataDir, first);
  expect([folderNow(), stateNow(), await isThere()]).toEqual(['v1.1.0', 'failed', false]);
});
