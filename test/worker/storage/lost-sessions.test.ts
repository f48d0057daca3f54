// A device whose object has lost everything while D1 has its record: whose it is and with whom it is shared comes back, by
// whatever is asked first, and nobody else gets in meanwhile.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { operate } from '../rig/accounts.ts';
import { call, createUser, type TestUser } from '../rig/clients/client.ts';
import {
  activate as activateOf,
  anna,
  bert as friend,
  createProduct,
  maker,
  openWindow,
  refused,
  signUpUsers,
  tokenOf,
  type Activation,
} from '../rig/ownership.ts';
import { sessionOf } from '../rig/provision.ts';
import { share } from '../rig/sharing.ts';

let productKey: string;
beforeEach(async () => {
  await signUpUsers();
  productKey = await createProduct();
});

const activate = (claimToken?: string, more?: object) => activateOf(productKey, claimToken, more);
const shareWith = (deviceId: string, user: TestUser) => share({ deviceId, productKey }, user, 'viewer', anna);
const ask = (user: TestUser, method: string, path: string, body?: object) =>
  call<Record<string, unknown>>(method, path, { token: user.token, ...(body && { body }) });

/** Anna's, and her friend may read it. */
async function shared(): Promise<Activation> {
  const { data } = await activate(await tokenOf(anna));
  await ask(anna, 'PATCH', `/devices/${data.deviceId}`, { name: 'Hall' });
  await shareWith(data.deviceId, friend);
  return data;
}

/** The state after objects are restored to a time before the activation. */
async function lose(deviceId: string): Promise<void> {
  await runInDurableObject(sessionOf(deviceId), async (_, { storage }) => {
    await storage.deleteAlarm();
    await storage.deleteAll();
  });
  await evictDurableObject(sessionOf(deviceId));
}

async function reconcile(): Promise<Record<string, number>> {
  await env.DB.prepare('update devices set created_at = 1').run();
  return (await operate<Record<string, number>>('/reconcile', { cursor: 0 })).data;
}

const membersOf = async (deviceId: string) =>
  (await ask(anna, 'GET', `/devices/${deviceId}/members`)).data['list'] as { userId: number }[];
const statusIn = async (user: TestUser, deviceId: string) =>
  (await ask(user, 'GET', `/devices/${deviceId}`)).data['status'];

describe('a device whose session was lost', () => {
  it('is as before for its members, the first caller included, and lets nobody else in', async () => {
    const { deviceId, mqtt } = await shared();
    await lose(deviceId);
    expect(await ask(friend, 'GET', `/devices/${deviceId}/status`)).toMatchObject({
      code: 200,
      data: { deviceName: 'Hall', status: 'inactive', online: false },
    });
    expect(await ask(maker, 'GET', `/devices/${deviceId}/status`)).toMatchObject({ code: 403 });
    expect(await ask(await createUser(), 'GET', `/devices/${deviceId}/status`)).toMatchObject({ code: 403 });
    expect(await ask(anna, 'POST', `/devices/${deviceId}/control`, { action: 'toggle' })).toMatchObject({
      message: 'device_not_activated',
    });
    const passwordDigest = await digestOf(mqtt.password);
    expect(await sessionOf(deviceId).authenticate({ productKey, passwordDigest })).toMatchObject({ ok: false });
    expect((await ask(anna, 'GET', `/devices/${deviceId}/events`)).data['list']).toContainEqual(
      expect.objectContaining({ status: 'ownership', reason: 'session_restored' }),
    );
    await vi.waitFor(async () => expect(await statusIn(anna, deviceId)).toBe('inactive'));
  });

  it('activates again as its owner lets it, and keeps its members', async () => {
    const { deviceId } = await shared();
    await lose(deviceId);
    expect(await activate(), 'a stranger comes first').toMatchObject(refused);
    expect(await activate(await tokenOf(maker))).toMatchObject(refused);
    await openWindow(anna, deviceId);
    const { data } = await activate();
    expect(data.deviceId).toBe(deviceId);
    const passwordDigest = await digestOf(data.mqtt.password);
    expect(await sessionOf(deviceId).authenticate({ productKey, passwordDigest })).toMatchObject({ ok: true });
    expect(await ask(friend, 'GET', `/devices/${deviceId}/status`)).toMatchObject({ code: 200 });
    const other = await createUser();
    await shareWith(deviceId, other);
    expect((await membersOf(deviceId)).map(({ userId }) => userId)).toEqual([friend.userId, other.userId]);
    await vi.waitFor(async () => expect(await statusIn(anna, deviceId)).not.toBe('inactive'));
  });

  it('activates with a claim token of its owner before anybody asked for it', async () => {
    const { deviceId } = await shared();
    await lose(deviceId);
    expect(await activate(await tokenOf(anna))).toMatchObject({ status: 200, data: { deviceId } });
    expect(await ask(friend, 'GET', `/devices/${deviceId}/status`)).toMatchObject({ code: 200 });
  });

  it('can be released, handed on, unshared and given credentials by its owner, and by nobody else', async () => {
    const { deviceId } = await shared();
    await lose(deviceId);
    expect(await ask(maker, 'POST', `/devices/${deviceId}/release`)).toMatchObject({ code: 403 });
    expect(await ask(friend, 'POST', `/devices/${deviceId}/credentials`)).toMatchObject({ code: 403 });
    expect(await ask(anna, 'DELETE', `/devices/${deviceId}/members/${friend.userId}`)).toMatchObject({ code: 200 });
    expect(await membersOf(deviceId)).toEqual([]);
    expect(await ask(anna, 'POST', `/devices/${deviceId}/credentials`)).toMatchObject({ code: 200 });
    await lose(deviceId);
    expect(await ask(anna, 'POST', `/devices/${deviceId}/transfer`, { email: friend.email })).toMatchObject({
      code: 200,
    });
    await lose(deviceId);
    expect(await ask(friend, 'POST', `/devices/${deviceId}/transfer/accept`)).toMatchObject({ code: 200 });
    await lose(deviceId);
    expect(await ask(friend, 'POST', `/devices/${deviceId}/release`)).toMatchObject({ code: 200 });
    expect(await activate()).toMatchObject({ status: 200, data: { deviceId } });
  });

  it.each(['secret', 'never'])(
    'comes back with reactivation %s, too, though its secret is lost',
    async (reactivation) => {
      await ask(maker, 'PUT', `/products/${productKey}`, { reactivation });
      const { deviceId, deviceSecret } = await shared();
      await lose(deviceId);
      expect(await activate(undefined, { deviceSecret })).toMatchObject(refused);
      if (reactivation === 'secret') await openWindow(anna, deviceId);
      else await ask(anna, 'POST', `/devices/${deviceId}/release`);
      const again = await activate();
      expect(again).toMatchObject({ status: 200, data: { deviceId } });
      // A release lasts until somebody claims the device.
      expect((await activate()).status).toBe(reactivation === 'secret' ? 403 : 200);
      const shown = await activate(undefined, { deviceSecret: again.data.deviceSecret });
      expect(shown.status).toBe(200);
    },
  );

  it('that is disabled stays so, and can be enabled', async () => {
    const { deviceId } = await shared();
    await ask(anna, 'PATCH', `/devices/${deviceId}`, { disabled: true });
    await lose(deviceId);
    expect(await activate(await tokenOf(anna))).toMatchObject({ message: 'device_disabled' });
    await ask(anna, 'PATCH', `/devices/${deviceId}`, { disabled: false });
    expect(await activate(await tokenOf(anna))).toMatchObject({ status: 200, data: { deviceId } });
  });
});

describe('the reconciliation', () => {
  it('restores owner and members of a lost session, once', async () => {
    const { deviceId } = await shared();
    await lose(deviceId);
    expect(await reconcile()).toMatchObject({ inactive: 1, failed: 0 });
    await vi.waitFor(async () => expect(await statusIn(friend, deviceId)).toBe('inactive'));
    // As the object alone knows it: D1 is not asked.
    const actor = { userId: friend.userId, scopes: null, productKey: null, keyId: null };
    expect(await sessionOf(deviceId).status(actor)).toMatchObject({ ok: true, value: { deviceName: 'Hall' } });
    expect(await reconcile()).toMatchObject({ inactive: 0 });
  });

  it.each([
    ['older', 0],
    ['newer', 900],
  ])('writes the members again where D1 has %s ones', async (_, version) => {
    const { deviceId } = await shared();
    await env.DB.batch([
      env.DB.prepare('update devices set members_version = ? where device_id = ?').bind(version, deviceId),
      env.DB.prepare('delete from device_members where user_id = ?').bind(friend.userId),
    ]);
    expect(await membersOf(deviceId)).toEqual([]);
    await reconcile();
    await vi.waitFor(async () =>
      expect(await membersOf(deviceId)).toMatchObject([{ userId: friend.userId, role: 'viewer' }]),
    );
    const other = await createUser();
    await shareWith(deviceId, other);
    expect(await membersOf(deviceId)).toHaveLength(2);
  });
});
