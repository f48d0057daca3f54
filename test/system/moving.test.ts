// `npm run operator -- export` and `import` between two built Workers, as an operator runs them, while devices are connected.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  activateMany,
  addProduct,
  sendCommand,
  signUp,
  type Activation,
  type Session,
} from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { eventually } from '../../rig/changes.ts';
import { SwitchDevice } from '../../rig/clients/switch-device.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { startBuiltWorker, type BuiltWorker } from '../../rig/worker/built-worker.ts';
import { openHeader, readFile } from '../../dev/moving/sealed-lines.ts';
import { canonicalJson } from '../../src/domain/json.ts';
import { operatorSecret, workerVars } from '../../rig/worker/worker-rig.ts';

const dir = makeTempDir('moving');
const passphrase = 'a passphrase of the test';
const secretOf = (name: string, place: string) => `${name}-of-${place}-which-is-long-enough`;
const secretsFile = (place: string) => join(dir, `${place}.env`);

/** Each has secrets of its own, in a file as `npm run secrets` makes it. */
async function start(place: string): Promise<BuiltWorker> {
  const bindings = parseEnv(readFileSync(secretsFile(place), 'utf8')) as Record<string, string>;
  return startBuiltWorker({ stateDir: join(dir, place), port: 0, bindings });
}

function writeSecrets(place: string): void {
  const names = ['JWT_SECRETS', 'SEALING_SECRETS', 'MESSAGING_SECRETS'];
  const secrets = Object.fromEntries(names.map((name) => [name, secretOf(name, place)]));
  const bindings = {
    ...workerVars,
    BROKER: 'none',
    MQTT_HOST: '127.0.0.1',
    ...secrets,
    JWT_SECRETS: `k1:${secrets['JWT_SECRETS']}`,
  };
  const lines = Object.entries({ ...bindings, OPERATOR_SECRETS: operatorSecret }).map(
    (entry) => `${entry.join('=')}\n`,
  );
  writeFileSync(secretsFile(place), lines.join(''), { mode: 0o600 });
}

function operate(worker: BuiltWorker, words: string[], EXPORT_PASSPHRASE = passphrase) {
  const env = { ...process.env, OPERATOR_SECRET: operatorSecret, EXPORT_PASSPHRASE };
  return new Promise<{ code: number; text: string }>((resolve) => {
    execFile(process.execPath, ['dev/operator.ts', '--url', worker.url, ...words], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr });
    });
  });
}

/** Agrees to be a webhook's receiver. */
async function startReceiver(): Promise<string> {
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => response.end(JSON.stringify((JSON.parse(text) as { data: unknown }).data)));
  });
  receivers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
const receivers: Server[] = [];

let from: BuiltWorker;
let to: BuiltWorker;
let owner: Session;
let devices: Activation[];
let connected: SwitchDevice[];
let key: { keyId: string; apiKey: string };

beforeAll(async () => {
  for (const place of ['from', 'to']) writeSecrets(place);
  [from, to] = await Promise.all([start('from'), start('to')]);
  owner = await signUp((credentials) => connectApi(from.url, credentials));
  const productKey = await addProduct(owner);
  const serials = Array.from({ length: 60 }, (_, index) => `SN-${index}`);
  devices = await activateMany(owner.api, productKey, serials);
  connected = await Promise.all(devices.slice(0, 5).map((device) => SwitchDevice.connect(from.url, device)));
  for (const device of connected) await device.report({ position: 'up' });
  key = await dataOf(
    owner.api.users['api-keys'].$post({ json: { description: 'moved', scopes: ['read', 'control'] } }),
  );
  const [first] = devices;
  const schedule = {
    name: 'Morning',
    at: '07:30',
    zone: 'UTC',
    command: { action: 'toggle' as const, position: 'up' as const },
  };
  await dataOf(
    owner.api.devices[':deviceId'].schedules.$post({ param: { deviceId: first?.deviceId ?? '' }, json: schedule }),
  );
  const url = await startReceiver();
  await dataOf(owner.api.webhooks.$post({ json: { url, types: ['device.online'] } }));
});
afterAll(async () => {
  for (const receiver of receivers) receiver.close();
  await Promise.all([from.stop(), to.stop()]);
});

const exported = () => join(dir, 'export.jsonl');
type Plain = { in?: string; row?: Record<string, unknown>; record?: Record<string, unknown> };
const plainLines = (path: string) =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Plain);

/** Opened, without the lines that are of the file alone. */
async function contentOf(path: string) {
  process.env['EXPORT_PASSPHRASE'] = passphrase;
  const key = await openHeader(path);
  const lines: unknown[] = [];
  for await (const { line } of readFile(path, key)) if (line.in !== 'secrets' && line.in !== 'end') lines.push(line);
  return lines;
}

/** A record in the database lags behind its device for a moment. */
async function isSettled(): Promise<boolean> {
  const path = join(dir, 'settled.jsonl');
  rmSync(path, { force: true });
  await operate(from, ['export', '--to', path]);
  return plainLines(path).every(({ in: table, row, record }) => {
    const { projectionVersion } = (record?.['presence'] ?? {}) as { projectionVersion?: number };
    return table !== 'devices' || row?.['projection_version'] === projectionVersion;
  });
}

it('exports everything, and goes on where it was cut off', async () => {
  await eventually('records as their devices are', isSettled);
  const done = await operate(from, ['export', '--to', exported(), '--secrets', secretsFile('from')]);
  expect(done).toMatchObject({ code: 0, text: expect.stringContaining('complete') as string });
  expect(statSync(exported()).mode & 0o777).toBe(0o600);
  const whole = await contentOf(exported());
  truncateSync(exported(), Math.floor(statSync(exported()).size / 2));
  const cut = await operate(to, ['import', exported()]);
  expect(cut).toMatchObject({ code: 1, text: expect.stringContaining('cut off') as string });
  const again = await operate(from, ['export', '--to', exported()]);
  expect(again.text).toContain('the export goes on');
  expect(canonicalJson(await contentOf(exported()))).toBe(canonicalJson(whole));
});

it('seals what opens something', () => {
  const text = readFileSync(exported(), 'utf8');
  for (const name of [
    'password_hash',
    'secret_hash',
    'credentials',
    'webhookSecrets',
    secretOf('MESSAGING_SECRETS', 'from'),
  ]) {
    expect(text).not.toContain(name);
  }
  const lines = plainLines(exported());
  expect(lines.filter((line) => line.in === 'devices')).toHaveLength(60);
  expect(lines.find((line) => line.in === 'users')?.row).toMatchObject({ email: owner.email });
});

describe('refuses', () => {
  it('a wrong or short passphrase', async () => {
    const wrong = await operate(to, ['import', exported()], 'another passphrase');
    expect(wrong).toMatchObject({ code: 1, text: expect.stringContaining('not the passphrase') as string });
    const short = await operate(to, ['import', exported()], 'short');
    expect(short).toMatchObject({ code: 1, text: expect.stringContaining('12 characters') as string });
  });

  it.each([
    ['changed', (lines: string[]) => lines.map((line) => line.replace(owner.email, 'other@example.test'))],
    ['swapped', (lines: string[]) => lines.with(4, lines[5] ?? '').with(5, lines[4] ?? '')],
  ])('a file with a line that was %s, before it writes anything', async (_, change) => {
    const path = join(dir, 'changed.jsonl');
    writeFileSync(path, change(readFileSync(exported(), 'utf8').split('\n')).join('\n'));
    const refused = await operate(to, ['import', path]);
    expect(refused).toMatchObject({ code: 1, text: expect.stringMatching(/line \d is not as/) as string });
    expect((await operate(to, ['find', owner.email])).code).toBe(1);
  });
});

describe('after the import', () => {
  beforeAll(async () => {
    const taken = await operate(to, ['import', exported(), '--secrets', secretsFile('to')]);
    expect(taken).toMatchObject({ code: 0, text: expect.stringMatching(/ 0 refused/) as string });
    expect(statSync(secretsFile('to')).mode & 0o777).toBe(0o600);
    await to.stop();
    to = await start('to');
  });

  it('another export is the same, record by record', async () => {
    const path = join(dir, 'round.jsonl');
    expect((await operate(to, ['export', '--to', path])).code).toBe(0);
    const [before, after] = [await contentOf(exported()), await contentOf(path)];
    for (const [index, line] of before.entries()) expect(after[index]).toEqual(line);
    expect(after).toHaveLength(before.length);
  });

  it('another import changes nothing', async () => {
    const { code, text } = await operate(to, ['import', exported(), '--from', '2']);
    expect({ code, text }).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^0 lines taken, \d+ were/m) as string,
    });
  });

  it('devices go on with the passwords that they have', async () => {
    const owned = await signUp((credentials) => connectApi(to.url, credentials), owner);
    expect(owned.isNew).toBe(false);
    const [device] = devices;
    if (device === undefined) throw new Error('no device');
    const there = await SwitchDevice.connect(to.url, device);
    const byKey = connectApi(to.url, { keyId: key.keyId, apiKey: key.apiKey });
    await sendCommand(byKey, device, { action: 'toggle', position: 'down' });
    expect(await there.untilCommanded()).toMatchObject([{ params: { position: 'down' } }]);
    const param = { deviceId: device.deviceId };
    const { list } = await dataOf(owned.api.devices[':deviceId'].schedules.$get({ param, query: {} }));
    expect(list).toMatchObject([{ name: 'Morning' }]);
    const { list: webhooks } = await dataOf(owned.api.webhooks.$get({ query: {} }));
    expect(webhooks).toHaveLength(1);
    await there.leave();
  });
});

it('is refused by a deployment with other users, before it writes anything', async () => {
  writeSecrets('used');
  const used = await start('used');
  const other = await signUp((credentials) => connectApi(used.url, credentials));
  const refused = await operate(used, ['import', exported()]);
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('Nothing was written') as string });
  expect((await operate(used, ['find', other.email])).code).toBe(0);
  await used.stop();
});
