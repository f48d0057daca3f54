// What an access token still does after its session, its password or its account has ended, and what needs the password again.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { forgetRevokedUsers, readRevokedUsers } from '../../../src/objects/calls/revoked-users.ts';
import { RelayGateway } from '../../../src/objects/relay/relay-gateway.ts';
import { call, createUser, makeDevice, openSession, type CallOptions } from '../rig/clients/client.ts';
import { logIn, newPassword, openAccount, operate, password, type Account } from '../rig/accounts.ts';
import type { Key } from '../rig/authorization-callers.ts';
import { connectHome } from '../rig/clients/direct.ts';
import { authed, listenAs, openRelay, shard } from '../rig/clients/relay.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';
import type { TestDevice } from '../rig/provision.ts';
import { share } from '../rig/sharing.ts';

const minuteMs = 60_000;
const ended = { status: 401, message: 'unauthorized: the session has ended' };
const gone = { status: 401, message: 'unauthorized: the account is disabled or deleted' };
const mustConfirm = { status: 403, message: 'confirmation_required', data: null };

const makeKey = (options: CallOptions) => call<Key>('POST', '/users/api-keys', { body: {}, ...options });
const command = (device: TestDevice, options: CallOptions) =>
  call('POST', `/devices/${device.deviceId}/control`, { ...options, body: { action: 'toggle', position: 'up' } });
const status = (device: TestDevice, options: CallOptions) => call('GET', `/devices/${device.deviceId}/status`, options);

/** Every isolate renews its list within two seconds. */
function letListGrowOld(): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2_000 });
}

describe('an access token', () => {
  let owner: Account;
  let device: TestDevice;

  beforeEach(async () => {
    owner = await openAccount();
    device = await makeDevice(owner);
  });

  it('makes no key after a password reset, which ends the keys and sessions from before', async () => {
    const key = (await makeKey(owner)).data;
    const socket = await openRelay();
    expect(await socket.ask({ action: 'auth', apiKey: key.keyId, apiSecret: key.apiKey })).toEqual(authed);
    const { client: home } = await connectHome(key);
    const issued = await operate<{ token: string }>('/accounts/reset-password', { name: owner.email.toUpperCase() });
    expect(issued.data).toMatchObject({ token: expect.stringMatching(/^pr_/) as string, link: null });
    const { token } = issued.data;
    const forged = `${token.slice(0, -2)}AA`;
    const reset = (shown: string) => call('PUT', '/users/password-reset', { body: { token: shown, newPassword } });
    const readBefore = vi.spyOn(env.DB, 'withSession');
    expect(await reset(forged)).toMatchObject({ status: 400 });
    expect(readBefore).not.toHaveBeenCalled();
    expect(await reset(token)).toMatchObject({ data: { message: 'password_changed', endedSessions: 1, endedKeys: 1 } });
    expect(await reset(token)).toMatchObject({ message: 'invalid_request: token: is unknown, used or expired' });
    expect([(await logIn(owner.email)).status, (await logIn(owner.email, newPassword)).status]).toEqual([401, 200]);
    const { refreshToken } = owner;
    expect((await call('POST', '/users/refresh-token', { body: { refreshToken } })).status).toBe(401);
    expect(await makeKey(owner)).toMatchObject(ended);
    expect(await call('GET', '/users/me', { key })).toMatchObject({ status: 401 });
    expect(await socket.closed).toMatchObject({ code: 1008, reason: 'API key deleted' });
    expect(await home.untilClosed()).toMatchObject({ reason: 'revoked' });
  });

  it('of a disabled account reads and controls nothing, on no socket either, until it is enabled', async () => {
    const key = (await makeKey(owner)).data;
    const socket = await listenAs(owner);
    const { client: home } = await connectHome(key);
    expect(await status(device, owner)).toMatchObject({ status: 200 });
    await operate('/accounts/disable', { name: owner.email });
    expect(await socket.closed).toMatchObject({ code: 1008, reason: 'account disabled' });
    expect(await home.untilClosed()).toMatchObject({ reason: 'revoked' });
    expect((await connectHome(key)).connack.body[1]).not.toBe(0);
    letListGrowOld();
    expect(await status(device, owner)).toMatchObject(gone);
    expect(await command(device, owner)).toMatchObject(gone);
    expect(await (await openRelay()).ask({ action: 'auth', token: owner.token })).toMatchObject({
      code: 401,
      message: 'unauthorized',
    });
    expect(await call('GET', '/users/me', { key })).toMatchObject({ status: 401 });
    await operate('/accounts/enable', { name: owner.email });
    expect(await status(device, (await logIn(owner.email)).data)).toMatchObject({ data: { status: 'offline' } });
  });

  it('controls no shared device after its account was deleted, which is no member any more', async () => {
    const friend = await openAccount();
    await share(device, friend, 'operator', owner);
    expect(await status(device, friend)).toMatchObject({ status: 200 });
    expect(await operate('/accounts/delete', { name: friend.email })).toMatchObject({
      data: { done: 1, failed: 0, cursor: null },
    });
    letListGrowOld();
    expect(await command(device, friend)).toMatchObject(gone);
    const members = await call('GET', `/devices/${device.deviceId}/members`, owner);
    expect(members).toMatchObject({ data: { total: 0, list: [] } });
    // The object as well: an account that was restored by hand would have no right.
    await env.DB.prepare('update users set disabled_at = null where id = ?').bind(friend.userId).run();
    forgetRevokedUsers();
    expect(await command(device, friend)).toMatchObject({ status: 403 });
  });
});

describe('a disabled account', () => {
  it('is found by a relay shard that could not be told', async () => {
    const [user, neighbour] = [await createUser(), await createUser()];
    const [socket, other] = [await listenAs(user), await listenAs(neighbour)];
    await env.DB.prepare('update users set disabled_at = ? where id = ?').bind(Date.now(), user.userId).run();
    forgetRevokedUsers();
    await runDurableObjectAlarm(shard());
    expect(await socket.closed).toMatchObject({ code: 1008, reason: 'account disabled' });
    expect(await other.ask({ action: 'ping' })).toEqual({ action: 'pong' });
  });

  it('is told to every relay shard, again if one fails', async () => {
    const account = await openAccount();
    const told = vi.spyOn(RelayGateway.prototype, 'endUser').mockImplementationOnce(() => {
      throw new Error('the shard is overloaded');
    });
    await operate('/accounts/disable', { name: account.email });
    const shards = new Set(told.mock.results.map(({ type }) => type));
    expect([...shards].sort()).toEqual(['return', 'throw']);
  });

  it('costs an isolate one statement a second, however many ask', async () => {
    const { userId } = await createUser();
    const database = new RecordedDatabase();
    const read = vi.spyOn(database.binding, 'withSession');
    const recorded = { ...env, DB: database.binding };
    const ask = () => Promise.all(Array.from({ length: 50 }, () => readRevokedUsers(recorded)));
    forgetRevokedUsers();
    for (const list of await ask()) expect(list.has(userId)).toBe(false);
    expect(read).toHaveBeenCalledTimes(1);
    await env.DB.prepare('update users set disabled_at = ? where id = ?').bind(Date.now(), userId).run();
    await ask();
    expect(read).toHaveBeenCalledTimes(1);
    // Beside the requests, which have the list from before.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 1_000 });
    for (const list of await ask()) expect(list.has(userId)).toBe(false);
    await vi.waitFor(async () => expect((await readRevokedUsers(recorded)).has(userId)).toBe(true));
    expect(read).toHaveBeenCalledTimes(2);
  });

  it('counts from the last list while the database is away', async () => {
    const { userId } = await createUser();
    await env.DB.prepare('update users set disabled_at = ? where id = ?').bind(Date.now(), userId).run();
    forgetRevokedUsers();
    expect((await readRevokedUsers(env)).has(userId)).toBe(true);
    letListGrowOld();
    const withSession = vi.fn(() => {
      throw new Error('D1 is away');
    });
    const away = { ...env, DB: { withSession } as unknown as D1Database };
    expect((await readRevokedUsers(away)).has(userId)).toBe(true);
    expect((await readRevokedUsers(away)).has(userId)).toBe(true);
    expect(withSession).toHaveBeenCalledTimes(1);
  });
});

describe('a confirmation by password', () => {
  it('is not left out: five minutes after the login nobody makes a key, an offer or a release without it', async () => {
    const owner = await openAccount();
    const device = await makeDevice(owner);
    await openSession(owner.userId, 0, 'young');
    const token = await openSession(owner.userId, 5 * minuteMs, 'old');
    const path = `/devices/${device.deviceId}`;
    const offer = { token, body: { email: 'friend@example.test' } };
    expect(await makeKey({ token })).toMatchObject(mustConfirm);
    expect(await call('POST', `${path}/transfer`, offer)).toMatchObject(mustConfirm);
    expect(await call('POST', `${path}/release`, { token })).toMatchObject(mustConfirm);
    expect(await call('PATCH', path, { token, body: { name: 'Lamp' } })).toMatchObject({ status: 200 });
    const confirm = (shown: string) => call('POST', '/users/me/confirmations', { token, body: { password: shown } });
    expect(await confirm('wrong horse')).toMatchObject({ status: 401, message: 'invalid_password' });
    expect(await makeKey({ token })).toMatchObject(mustConfirm);
    expect(await confirm(password)).toMatchObject({ data: { message: 'confirmed' } });
    expect(await makeKey({ token })).toMatchObject({ status: 200 });
    expect(await call('POST', `${path}/transfer`, offer)).toMatchObject({ status: 200 });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5 * minuteMs });
    expect(await call('POST', `${path}/release`, { token })).toMatchObject(mustConfirm);
  });

  it('lets nobody guess the password undisturbed', async () => {
    const { token } = await openAccount();
    const confirm = () => call('POST', '/users/me/confirmations', { token, body: { password: 'wrong horse' } });
    for (let count = 0; count < 5; count += 1) expect((await confirm()).status).toBe(401);
    expect(await confirm()).toMatchObject({ status: 429 });
  });
});

const browser = { endpoint: 'https://push.example.net/1', keys: inject('pushService').keys };
const subscribe = ({ userId }: Account) => env.USER_INBOX.getByName(`user-${userId}`).subscribe(browser);
const subscriptions = async ({ userId }: Account) =>
  (await env.USER_INBOX.getByName(`user-${userId}`).read()).subscriptions.length;

describe('a new password', () => {
  it('ends the other sessions, all keys and pushes, and says how many', async () => {
    const owner = await openAccount();
    await subscribe(owner);
    const other = (await logIn(owner.email)).data;
    const [key] = [(await makeKey(owner)).data, await makeKey(owner)];
    const body = { oldPassword: password, newPassword };
    const changed = await call('PUT', '/users/password', { token: owner.token, body });
    expect(changed).toMatchObject({ data: { message: 'password_changed', endedSessions: 1, endedKeys: 2 } });
    expect(await call('GET', '/users/me', { key })).toMatchObject({ status: 401 });
    expect(await makeKey(other)).toMatchObject(ended);
    expect(await makeKey(owner)).toMatchObject({ status: 200 });
    expect(await subscriptions(owner)).toBe(0);
  });

  it('leaves them if its user says so', async () => {
    const owner = await openAccount();
    await subscribe(owner);
    const other = (await logIn(owner.email)).data;
    const key = (await makeKey(owner)).data;
    const body = { oldPassword: password, newPassword, endSessions: false, endKeys: false };
    const changed = await call('PUT', '/users/password', { token: owner.token, body });
    expect(changed).toMatchObject({ data: { endedSessions: 0, endedKeys: 0 } });
    expect(await call('GET', '/users/me', { key })).toMatchObject({ status: 200 });
    expect(await makeKey(other)).toMatchObject({ status: 200 });
    expect(await subscriptions(owner)).toBe(1);
  });
});
