// What a restore of D1 alone or of objects alone leaves behind, and how it is mended: records without a session by the
// reconciliation, sessions without a record by the devices themselves.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { z } from 'zod';
import { inPerson } from '../../../src/domain/access.ts';
import { createId, digestOf } from '../../../src/crypto/secrets.ts';
import { claimOutboxEntry } from '../../../src/db/devices/broker-outbox.ts';
import { openDatabase } from '../../../src/db/client.ts';
import { DeviceEffects } from '../../../src/objects/device/effects.ts';
import type { StoredDevice } from '../../../src/objects/device/stored-device.ts';
import type { reconciledSchema } from '../../../src/protocol/operator.ts';
import { operate } from '../rig/accounts.ts';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { sessionOf, reportConnected, reportDisconnected } from '../rig/provision.ts';
import { insertRecords } from '../rig/records.ts';

type Reconciled = z.infer<typeof reconciledSchema>;
type Device = { deviceId: string; deviceSN: string; status: string };

const hourMs = 3_600_000;
let owner: TestUser;
let productKey: string;
const passwords = new Map<string, string>();
beforeEach(async () => {
  owner = await createUser();
  productKey = await makeProduct(owner);
});
afterEach(async () => {
  vi.useRealTimers();
  await env.DB.prepare('delete from devices').run();
});

async function activate(deviceSN = 'SN-1'): Promise<string> {
  const body = { productKey, deviceSN };
  const { data } = await call<Device & { mqtt: { password: string } }>('POST', '/devices/activate', { body });
  passwords.set(data.deviceId, data.mqtt.password);
  return data.deviceId;
}

function pass(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms });
}

const reconcile = (cursor: unknown) => operate<Reconciled>('/reconcile', { cursor });

async function reconcileAll(): Promise<Reconciled> {
  const { data } = await reconcile(0);
  expect(data.cursor).toBeNull();
  return data;
}

async function listDevices(): Promise<Device[]> {
  return (await call<{ list: Device[] }>('GET', '/devices', { token: owner.token })).data.list;
}

async function statusInList(): Promise<string | undefined> {
  return (await listDevices())[0]?.status;
}

async function connect(deviceId: string): Promise<void> {
  const passwordDigest = await digestOf(passwords.get(deviceId) ?? '');
  expect(await sessionOf(deviceId).authenticate({ productKey, passwordDigest })).toMatchObject({ ok: true });
  await reportConnected({ deviceId });
}

/** A record of more than ten minutes ago whose object knows nothing, as objects restored to an earlier time leave it. */
async function loseSession(): Promise<string> {
  const deviceId = createId('dev_', 8);
  await insertRecords({ ownerId: owner.userId, productKey, count: 1, statuses: [1] });
  await env.DB.prepare('update devices set device_id = ?, projection_version = 57 where owner_id = ?')
    .bind(deviceId, owner.userId)
    .run();
  return deviceId;
}

describe('a record without a session', () => {
  it('becomes inactive, and the next activation makes it whole', async () => {
    const deviceId = await loseSession();
    expect(await statusInList()).toBe('online');
    expect(await reconcileAll()).toMatchObject({ checked: 1, inactive: 1, deleted: 0, failed: 0 });
    expect(await statusInList()).toBe('inactive');
    const answer = await call<{ total: number }>('GET', '/devices?status=0', { token: owner.token });
    expect(answer.data.total).toBe(1);
    expect(await activate('RECORD-1')).toBe(deviceId);
    await expect.poll(statusInList).toBe('offline');
    await connect(deviceId);
    await expect.poll(statusInList).toBe('online');
    pass(hourMs);
    expect(await reconcileAll()).toMatchObject({ checked: 1, inactive: 0, deleted: 0, failed: 0 });
    expect(await statusInList()).toBe('online');
  });

  it('is deleted where its device was deleted', async () => {
    const deviceId = await activate();
    pass(11 * 60_000);
    await sessionOf(deviceId).decide({ kind: 'deleted', actor: null });
    expect(await reconcileAll()).toMatchObject({ checked: 1, inactive: 0, deleted: 1 });
    expect(await listDevices()).toEqual([]);
  });

  it('is left alone while its activation may be under way', async () => {
    await loseSession();
    await env.DB.prepare('update devices set created_at = ?').bind(Date.now()).run();
    expect(await reconcileAll()).toMatchObject({ checked: 1, inactive: 0, deleted: 0 });
    expect(await statusInList()).toBe('online');
  });
});

it.each([
  ['an older', 0],
  ['a newer', 900],
])('a record shows the presence of its session again where D1 had %s projection', async (_, version) => {
  const deviceId = await activate();
  await connect(deviceId);
  await expect.poll(statusInList).toBe('online');
  const restored = 'update devices set connection_status = 2, projection_version = ? where device_id = ?';
  await env.DB.prepare(restored).bind(version, deviceId).run();
  await reconcileAll();
  await expect.poll(statusInList).toBe('online');
  await reportDisconnected({ deviceId });
  await expect.poll(statusInList).toBe('offline');
});

it('a reconciliation refuses a cursor that is none', async () => {
  expect(await reconcile('yes')).toMatchObject({ status: 400 });
});

it('numbers that were given out before a restore are skipped by the statement of docs/running.md', async () => {
  const update = "UPDATE sqlite_sequence SET seq = seq + 1000000 WHERE name IN ('users', 'products', 'devices')";
  await env.DB.prepare(update).run();
  expect((await createUser()).userId).toBe(owner.userId + 1_000_001);
});

describe('a session without a record', () => {
  /** A day later the device comes online again; D1 is asked within an hour. */
  async function comeBack(deviceId: string): Promise<void> {
    pass(24 * hourMs);
    await connect(deviceId);
    pass(hourMs);
    await runDurableObjectAlarm(sessionOf(deviceId));
  }

  async function isThere(deviceId: string): Promise<boolean> {
    return (await sessionOf(deviceId).status(inPerson(owner.userId))).ok;
  }

  /** Only the row shows that the answer of D1 has arrived. */
  async function readCheck(deviceId: string): Promise<{ confirmedAtMs: number; missingSinceMs: number | null }> {
    return runInDurableObject(sessionOf(deviceId), (_, { storage }) => {
      const query = "select json from slice where name = 'administration'";
      const { json } = storage.sql.exec<{ json: string }>(query).one();
      return (JSON.parse(json) as { recordCheck: Awaited<ReturnType<typeof readCheck>> }).recordCheck;
    });
  }

  it('ends after two answers of D1, six hours apart', async () => {
    const deviceId = await activate();
    await env.DB.prepare('delete from devices where device_id = ?').bind(deviceId).run();
    await comeBack(deviceId);
    await expect.poll(async () => (await readCheck(deviceId)).missingSinceMs).not.toBeNull();
    expect(await isThere(deviceId)).toBe(true);
    pass(6 * hourMs);
    await runDurableObjectAlarm(sessionOf(deviceId));
    await expect.poll(() => isThere(deviceId)).toBe(false);
    expect(await activate()).not.toBe(deviceId);
  });

  it('ends at a broker that holds the credentials, too', async () => {
    const deviceId = createId('dev_', 8);
    const work: Promise<unknown>[] = [];
    const waitUntil = (promise: Promise<unknown>) => work.push(promise);
    const ctx = { id: { name: deviceId }, waitUntil } as unknown as DurableObjectState;
    const atMosquitto = { ...env, BROKER_PROVISIONING: 'mosquitto' } as unknown as Env;
    const device = { ctx, env: atMosquitto, deviceId, about: { deviceId } } as unknown as StoredDevice;
    const effects = new DeviceEffects(device, undefined as never);
    await effects.run([{ kind: 'delete_at_broker', productKey }]);
    await Promise.all(work);
    const nowMs = Date.now();
    const entry = await claimOutboxEntry(openDatabase(env.DB), nowMs, nowMs + 1, deviceId);
    expect(entry).toMatchObject({ deviceId, productKey, operation: 'delete' });
  });

  it('stays where there is a record', async () => {
    const deviceId = await activate();
    const { confirmedAtMs } = await readCheck(deviceId);
    await comeBack(deviceId);
    await expect.poll(async () => (await readCheck(deviceId)).confirmedAtMs).toBeGreaterThan(confirmedAtMs);
    expect(await isThere(deviceId)).toBe(true);
  });

  it('stays where the database does not know its product either, which is not the one it was made with', async () => {
    const deviceId = await activate();
    await env.DB.batch([env.DB.prepare('delete from devices'), env.DB.prepare('delete from products')]);
    const asked = vi.spyOn(env.DB, 'withSession');
    await comeBack(deviceId);
    for (let hour = 0; hour < 30; hour++) {
      pass(hourMs);
      await runDurableObjectAlarm(sessionOf(deviceId));
    }
    await expect.poll(() => asked.mock.calls.length).toBeGreaterThan(1);
    expect(await readCheck(deviceId)).toMatchObject({ missingSinceMs: null });
    expect(await isThere(deviceId)).toBe(true);
  });
});
