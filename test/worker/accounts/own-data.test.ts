// What a user gets of the own data, and how an account ends that its user deletes.
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it } from 'vitest';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { logIn, openAccount, register, password, type Account } from '../rig/accounts.ts';
import { call, makeProduct } from '../rig/clients/client.ts';
import { activate, isWorking, type Activation } from '../rig/ownership.ts';

type OwnData = {
  account: Record<string, unknown> | null;
  devices: Record<string, unknown>[];
  next: string | null;
};

let maker: Account;
let user: Account;
let productKey: string;
beforeEach(async () => {
  [maker, user] = await Promise.all([openAccount(), openAccount()]);
  productKey = await makeProduct(maker, { controlMode: 'toggle' });
});

async function claim(count: number): Promise<Activation[]> {
  const claimed: Activation[] = [];
  for (let index = 0; index < count; index++) {
    const { data } = await call<{ token: string }>('POST', '/devices/claim-tokens', { token: user.token });
    claimed.push((await activate(productKey, data.token, { deviceSN: `SN-${index}` })).data);
  }
  return claimed;
}
const deleteAccount = (account: Account, shown = password) =>
  call('DELETE', '/users/me', { token: account.token, body: { password: shown } });
const exportOf = ({ token }: Account, query = '') => call<OwnData>('GET', `/users/me/export${query}`, { token });
const ownerOf = (deviceId: string) =>
  env.DB.prepare('select owner_id from devices where device_id = ?').bind(deviceId).first<number>('owner_id');

it('gets the account and its devices, page by page, without a secret', async () => {
  await claim(21);
  await call('POST', '/users/api-keys', { token: user.token, body: { description: 'mine', scopes: ['read'] } });
  const first = await exportOf(user);
  expect(first).toMatchObject({ status: 200, data: { account: { email: user.email } } });
  expect(first.data.account?.['apiKeys']).toMatchObject({ total: 1, list: [{ description: 'mine' }] });
  expect(first.data.account?.['sessions']).toMatchObject({ total: 1 });
  expect(first.data.account?.['zone']).toEqual({ zone: 'UTC' });
  expect(first.data.devices).toHaveLength(20);
  expect(first.data.devices[0]).toMatchObject({ role: 'owner', present: { online: false }, schedules: { list: [] } });
  expect(first.data.devices[0]).toMatchObject({ usage: { list: expect.any(Array) as unknown }, histories: [] });
  const text = JSON.stringify(first.data);
  for (const word of ['Hash', 'secret', 'digest', 'sk_']) expect(text).not.toContain(word);
  const rest = await exportOf(user, `?after=${encodeURIComponent(first.data.next ?? '')}`);
  expect(rest.data).toMatchObject({ account: null, next: null });
  expect(rest.data.devices).toHaveLength(1);
  expect((await exportOf(maker)).data.devices).toEqual([]);
});

describe('deletes the account', () => {
  it('with the password alone', async () => {
    expect(await deleteAccount(user, 'a wrong one')).toMatchObject({ status: 401, message: 'invalid_password' });
    expect((await exportOf(user)).status).toBe(200);
  });

  it('not while somebody else has a device of its product', async () => {
    await claim(1);
    expect(await deleteAccount(maker)).toMatchObject({ status: 400, message: 'product_has_devices' });
    expect((await exportOf(maker)).status).toBe(200);
  });

  it('at once: its devices are released, its name is free, its tokens and keys open nothing', async () => {
    const [device] = await claim(1);
    const key = await call<{ keyId: string; apiKey: string }>('POST', '/users/api-keys', {
      token: user.token,
      body: { description: 'mine' },
    });
    expect(await deleteAccount(user)).toMatchObject({ status: 200, data: { isComplete: true } });
    expect(await ownerOf(device?.deviceId ?? '')).toBe(maker.userId);
    expect(device && (await isWorking(device))).toBe(false);
    expect((await exportOf(user)).status).toBe(401);
    expect((await call('GET', '/users/me', { key: key.data })).status).toBe(401);
    expect((await logIn(user.email)).status).toBe(401);
    const names = ['users', 'security_events', 'api_keys'].map((table) =>
      env.DB.prepare(`select count(*) as n from ${table} where ${table === 'users' ? 'email' : 'user_id'} = ?`)
        .bind(table === 'users' ? user.email : user.userId)
        .first('n'),
    );
    expect(await Promise.all(names)).toEqual([0, 0, 0]);
    expect((await register(user.email)).status).toBe(200);
  });

  it('with more devices than a request carries: the minute goes on with them', async () => {
    const devices = await claim(21);
    expect(await deleteAccount(user)).toMatchObject({ status: 200, data: { isComplete: false } });
    expect((await register(user.email)).status).toBe(200);
    await runScheduledJobs(env);
    const owners = await Promise.all(devices.map(({ deviceId }) => ownerOf(deviceId)));
    expect(new Set(owners)).toEqual(new Set([maker.userId]));
  });

  it('of a maker with own devices alone: they and the product end', async () => {
    const { deviceId } = (await activate(productKey)).data;
    expect(await deleteAccount(maker)).toMatchObject({ status: 200, data: { isComplete: true } });
    expect(await ownerOf(deviceId)).toBeNull();
    expect(await activate(productKey)).toMatchObject({ message: 'invalid_product_key' });
  });
});
