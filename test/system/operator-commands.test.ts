// `npm run operator`, `reconcile` and `doctor` against the built Worker without a bridge, as an operator runs them.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { operatorSecret, WorkerRig } from '../../rig/worker/worker-rig.ts';

let rig: WorkerRig;
beforeAll(async () => {
  rig = await WorkerRig.start({ vars: { BROKER: 'none' } });
});
afterAll(() => rig.stop());

type Ended = { code: number; text: string };

/** Without a terminal. */
function run(environment: Record<string, string>, command: string, ...options: string[]): Promise<Ended> {
  const env = { ...process.env, ...environment };
  return new Promise((resolve) => {
    const child = execFile(command, options, { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr });
    });
    child.stdin?.end();
  });
}

const reconcile = (environment: Record<string, string>, ...options: string[]) =>
  run(environment, process.execPath, 'dev/operator.ts', 'reconcile', ...options);
const operate = (...words: string[]) =>
  run({ OPERATOR_SECRET: operatorSecret }, process.execPath, 'dev/operator.ts', '--url', rig.url, ...words);

it('compares all records and says what it found', async () => {
  await rig.activateMany(5);
  const { code, text } = await reconcile({ OPERATOR_SECRET: operatorSecret }, '--url', `${rig.url}/`);
  expect({ code, text }).toMatchObject({ code: 0 });
  expect(text).toContain('5 compared: 0 have no session');
  const rest = await reconcile({ OPERATOR_SECRET: operatorSecret }, '--url', rig.url, '--from', '3');
  expect(rest.text).toContain('2 compared: 0 have no session');
});

it('says why it was refused, and what it needs', async () => {
  const refused = await reconcile({ OPERATOR_SECRET: 'x' }, '--url', rig.url);
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('401 unauthorized') as string });
  const without = await reconcile({ OPERATOR_SECRET: operatorSecret });
  expect(without).toMatchObject({ code: 2, text: expect.stringContaining('--help') as string });
  const misspelt = await reconcile({ OPERATOR_SECRET: operatorSecret }, '--uri', rig.url);
  expect(misspelt).toMatchObject({ code: 2, text: expect.stringContaining('--help') as string });
});

it('sends no secret to another machine without TLS', async () => {
  const readable = await reconcile({ OPERATOR_SECRET: operatorSecret }, '--url', 'http://api.example.com');
  expect(readable).toMatchObject({ code: 2, text: expect.stringContaining('ALLOW_PLAINTEXT') as string });
});

it('finds a device by its id or serial number and an account by its e-mail', async () => {
  const { deviceId } = await rig.activate('SN-TO-FIND');
  const { email } = rig.owner;
  for (const name of [deviceId, 'SN-TO-FIND']) {
    const { code, text } = await operate('find', name);
    expect({ code, text }).toMatchObject({ code: 0 });
    for (const fact of [deviceId, 'SN-TO-FIND', email, 'offline', 'activated']) expect(text).toContain(fact);
  }
  expect((await operate('find', email)).text).toMatch(/^state +enabled$/m);
  expect(await operate('find', 'nothing-of-this-name')).toMatchObject({ code: 1 });
});

it('deletes nothing where nobody can be asked, and says how to', async () => {
  const ended = await operate('delete', rig.owner.email);
  expect(ended).toMatchObject({ code: 1, text: expect.stringContaining('--yes') as string });
  expect((await operate('find', rig.owner.email)).code).toBe(0);
});

it('the doctor names the migration that is missing, and what to do', async () => {
  const message = 'unavailable: database (migration 0001_next is not applied)';
  const server = createServer((_, response) => response.writeHead(503).end(JSON.stringify({ code: 503, message })));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const { text } = await run({}, process.execPath, 'dev/doctor.ts', '--url', `http://127.0.0.1:${port}`);
  expect(text).toContain(`${message}: npm run deploy applies it`);
  server.close();
});

it('ends cleanly when its reader goes first', async () => {
  const doctor = `${process.execPath} dev/doctor.ts --url ${rig.url}`;
  expect(await run({}, 'bash', '-c', `set -o pipefail; ${doctor} | head -n 1`)).toEqual({
    code: 0,
    text: expect.stringMatching(/^ok +address .*\n$/) as string,
  });
});
