// Deletions that are cut off or crossed by an activation, at a broker that credentials are pushed to: none may leave a
// credential behind there, nor a device that can neither log in nor be deleted.
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { closeBridges, dialIn } from '../rig/clients/link.ts';
import { callWith } from '../rig/limited.ts';
import { answerCommands, withMosquitto } from '../rig/outbox.ts';
import { sessionOf } from '../rig/provision.ts';

let owner: TestUser;
let productKey: string;
let deviceId: string;

const call = (method: string, path: string, body?: object, of = withMosquitto) =>
  callWith<{ deviceId: string } | null>(of, method, path, { token: owner.token, body });

async function activate(): Promise<string | undefined> {
  const { data } = await call('POST', '/devices/activate', { productKey, deviceSN: 'SN-1' });
  return data?.deviceId;
}

const deleteDevice = (of = withMosquitto) => call('DELETE', `/devices/${deviceId}`, undefined, of);

function withDeletion(deleteSession: () => Promise<void>): Env {
  const allowed = { ok: true, value: null };
  const session = { allows: () => Promise.resolve(allowed), decide: () => deleteSession().then(() => allowed) };
  return { ...withMosquitto, DEVICE_SESSION: { getByName: () => session } } as unknown as Env;
}

async function outboxEntry() {
  const statement = env.DB.prepare(
    'SELECT operation, delivered_at, next_attempt_at FROM broker_outbox WHERE device_id = ?',
  );
  return statement.bind(deviceId).first<{ operation: string; delivered_at: number | null; next_attempt_at: number }>();
}

const deleted = { operation: 'delete', delivered_at: expect.any(Number) as number };

beforeEach(async () => {
  const { bridge } = await dialIn('one');
  bridge.answerAll((frame) => void answerCommands(bridge, frame));
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  owner = await createUser();
  productKey = await makeProduct(owner);
  deviceId = (await activate())!;
});
afterEach(async () => {
  await closeBridges();
  await env.DB.prepare('DROP TRIGGER IF EXISTS no_deletions').run();
});

async function refuseDeletions(): Promise<void> {
  await env.DB.prepare(
    `CREATE TRIGGER no_deletions BEFORE INSERT ON broker_outbox WHEN NEW.operation = 'delete'
     BEGIN SELECT RAISE(ABORT, 'no deletions'); END`,
  ).run();
}

it('leaves a device as it was where its deletion at the broker cannot be recorded', async () => {
  await refuseDeletions();
  expect((await deleteDevice()).status).toBe(500);
  expect((await call('GET', `/devices/${deviceId}/status`)).status).toBe(200);
  expect(await outboxEntry()).toMatchObject({ operation: 'upsert' });
  await env.DB.prepare('DROP TRIGGER no_deletions').run();
  expect((await deleteDevice()).status).toBe(200);
  expect(await outboxEntry()).toMatchObject(deleted);
});

it('deletes the credential of a deletion that was cut off when the device activates again', async () => {
  await sessionOf(deviceId).decide({ kind: 'deleted', actor: null });
  await refuseDeletions();
  expect(await activate(), 'not before the deletion is recorded').toBeUndefined();
  await env.DB.prepare('DROP TRIGGER no_deletions').run();
  expect(await activate()).toMatch(/^dev_/);
  expect((await deleteDevice()).message).toBe('device_not_found');
  expect(await outboxEntry()).toMatchObject(deleted);
});

it('records the deletion of a request that fails at the session, to be delivered within a minute', async () => {
  const failing = withDeletion(() => Promise.reject(new Error('the session is away')));
  expect((await deleteDevice(failing)).status).toBe(500);
  const entry = await outboxEntry();
  expect(entry).toMatchObject({ operation: 'delete', delivered_at: null });
  expect(entry!.next_attempt_at).toBeLessThan(Date.now() + 60_000);
  expect((await deleteDevice()).status).toBe(200);
  expect(await outboxEntry()).toMatchObject(deleted);
});

it('lets a device whose deletion failed at the session back in when it activates again', async () => {
  const failing = withDeletion(() => Promise.reject(new Error('the session is away')));
  expect((await deleteDevice(failing)).status).toBe(500);
  expect(await activate()).toBe(deviceId);
  expect(await outboxEntry()).toMatchObject({ operation: 'upsert', delivered_at: expect.any(Number) as number });
});

it('deletes the credential of an activation that began after the deletion and came before the session ended', async () => {
  const crossed = withDeletion(async () => {
    expect(await activate()).toBe(deviceId);
    await sessionOf(deviceId).decide({ kind: 'deleted', actor: null });
  });
  expect((await deleteDevice(crossed)).status).toBe(200);
  expect(await outboxEntry()).toMatchObject(deleted);
});
