// `npm run reconcile` against the built Worker, as an operator runs it.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bridgeSecret } from '../../rig/services/processes.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

let rig: WorkerRig;
beforeAll(async () => {
  rig = await WorkerRig.start();
});
afterAll(() => rig.stop());

function reconcile(environment: Record<string, string>, ...options: string[]): Promise<{ code: number; text: string }> {
  const env = { ...process.env, ...environment };
  return new Promise((resolve) => {
    execFile(process.execPath, ['dev/operator.ts', 'reconcile', ...options], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr });
    });
  });
}

it('compares all records and says what it found', async () => {
  await rig.activateMany(5);
  const { code, text } = await reconcile({ BRIDGE_SECRET: bridgeSecret }, '--url', `${rig.url}/`);
  expect({ code, text }).toMatchObject({ code: 0 });
  expect(text).toContain('5 compared: 0 have no session');
  const rest = await reconcile({ BRIDGE_SECRET: bridgeSecret }, '--url', rig.url, '--from', '3');
  expect(rest.text).toContain('2 compared: 0 have no session');
});

it('says why it was refused, and what it needs', async () => {
  const refused = await reconcile({ BRIDGE_SECRET: 'x' }, '--url', rig.url);
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('401 unauthorized') as string });
  const without = await reconcile({ BRIDGE_SECRET: bridgeSecret });
  expect(without).toMatchObject({ code: 2, text: expect.stringContaining('--help') as string });
  const misspelt = await reconcile({ BRIDGE_SECRET: bridgeSecret }, '--uri', rig.url);
  expect(misspelt).toMatchObject({ code: 2, text: expect.stringContaining('--help') as string });
});

it('sends no secret to another machine without TLS', async () => {
  const readable = await reconcile({ BRIDGE_SECRET: bridgeSecret }, '--url', 'http://api.example.com');
  expect(readable).toMatchObject({ code: 2, text: expect.stringContaining('ALLOW_PLAINTEXT') as string });
});
