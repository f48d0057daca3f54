// Contract section 4.1: accounts, sessions and API keys.
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ask, bearer, connect, keyPair, signUp } from '../../rig/clients/conformance-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const api = connect();
const newAccount = () => {
  const email = `${randomUUID()}@example.test`;
  return { username: `user ${randomUUID()}`, password: 'correct horse battery', email };
};

describe('POST /users/register', () => {
  it('makes a user, without a bearer token and with a stale one', async () => {
    const { username, password, email } = newAccount();
    const answer = await ask('POST', '/users/register', {
      headers: bearer('stale'),
      body: { username, password, email },
    });
    expect(answer.data).toEqual({ userId: expect.any(Number) as number, username, email });
  });

  it('takes the email for the username where there is none, and ignores other members', async () => {
    const { password, email } = newAccount();
    const { data } = await ask('POST', '/users/register', { body: { email, password, displayName: 'Ada' } });
    expect(data).toMatchObject({ username: email, email });
  });

  it('refuses names and emails that are taken, whatever their case', async () => {
    const account = newAccount();
    await dataOf(api.users.register.$post({ json: account }));
    const others = newAccount();
    const again = (body: object) => ask('POST', '/users/register', { body });
    expect(await again({ ...others, email: account.email.toUpperCase() })).toMatchObject({
      code: 400,
      message: expect.stringMatching(/^email_exists/) as string,
    });
    expect(await again({ ...others, username: account.username.toUpperCase() })).toMatchObject({
      code: 400,
      message: expect.stringMatching(/^username_exists/) as string,
    });
  });

  it('refuses a weak password by that word', async () => {
    const answer = await ask('POST', '/users/register', { body: { ...newAccount(), password: 'short' } });
    expect(answer).toMatchObject({ code: 400, message: expect.stringContaining('weak_password') as string });
  });

  it('refuses what is no account', async () => {
    const account = newAccount();
    for (const wrong of [{ email: 'no address' }, { password: undefined }, { username: 7 }, { username: 'ab' }]) {
      const answer = await ask('POST', '/users/register', { body: { ...account, ...wrong } });
      expect(answer, JSON.stringify(wrong)).toMatchObject({
        code: 400,
        message: expect.stringMatching(/^invalid_request: \w+: /) as string,
      });
    }
  });
});

describe('POST /users/login', () => {
  it('answers the user, both tokens and the lifetime in seconds', async () => {
    const account = newAccount();
    await dataOf(api.users.register.$post({ json: account }));
    const session = await dataOf(api.users.login.$post({ json: account }));
    expect(session).toEqual({
      user: { userId: expect.any(Number) as number, username: account.username, email: account.email },
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) as string,
      refreshToken: expect.any(String) as string,
      expiresIn: 7200,
    });
  });

  it('knows a user by username or email, in either member and any case', async () => {
    const { username, email, password } = newAccount();
    await dataOf(api.users.register.$post({ json: { username, email, password } }));
    const ways = [{ username }, { username: email }, { email }, { email: email.toUpperCase() }];
    for (const way of ways) {
      const { user } = await dataOf(api.users.login.$post({ json: { ...way, password } }));
      expect(user.email, JSON.stringify(way)).toBe(email);
    }
  });

  it('answers a wrong password and an unknown user alike', async () => {
    const account = newAccount();
    await dataOf(api.users.register.$post({ json: account }));
    const wrong = await ask('POST', '/users/login', { body: { ...account, password: 'wrong horse' } });
    const unknown = await ask('POST', '/users/login', { body: newAccount() });
    expect(wrong).toMatchObject({ status: 401, code: 401, message: 'invalid_password', data: null });
    expect([unknown.status, unknown.message]).toEqual([wrong.status, wrong.message]);
  });

  it('refuses a body without a name or a password', async () => {
    for (const body of [{}, { username: 'ada' }, { password: 'correct horse' }, []]) {
      expect(await ask('POST', '/users/login', { body })).toMatchObject({ code: 400 });
    }
  });
});

describe('POST /users/refresh-token', () => {
  it('answers a fresh pair, with the refresh token alone or beside a stale bearer token', async () => {
    const session = await signUp();
    const first = await dataOf(api.users['refresh-token'].$post({ json: session }));
    expect(Object.keys(first).sort()).toEqual(['expiresIn', 'refreshToken', 'token']);
    expect(first.refreshToken).not.toBe(session.refreshToken);
    const { data } = await ask('POST', '/users/refresh-token', {
      headers: bearer('stale.stale.stale'),
      body: { refreshToken: first.refreshToken },
    });
    const { token } = data as { token: string };
    expect(await ask('GET', '/users/me', { headers: bearer(token) })).toMatchObject({ code: 200 });
  });

  it('answers twice when a phone asks twice at once', async () => {
    const { refreshToken } = await signUp();
    const pairs = await Promise.all(
      [1, 2].map(() => dataOf(api.users['refresh-token'].$post({ json: { refreshToken } }))),
    );
    for (const { token } of pairs) expect(await dataOf(connect({ token }).users.me.$get())).toBeDefined();
  });

  it('refuses what is no refresh token', async () => {
    const session = await signUp();
    for (const refreshToken of ['rt_unknown', '', session.token]) {
      const answer = await ask('POST', '/users/refresh-token', { body: { refreshToken } });
      expect([400, 401], refreshToken).toContain(answer.code);
      expect(answer.data).toBeNull();
    }
    expect(await ask('POST', '/users/refresh-token', { body: {} })).toMatchObject({ code: 400 });
  });
});

it("GET /users/me has the user's members directly in data", async () => {
  const { user, api: own } = await signUp();
  const createdAt = expect.stringMatching(/Z$/) as string;
  expect(await dataOf(own.users.me.$get())).toEqual({ ...user, emailVerified: true, createdAt });
});

it('POST /users/logout and PUT /users/password end this session, and all the other ones', async () => {
  const session = await signUp();
  const { email, password, refreshToken } = session;
  const other = await dataOf(api.users.login.$post({ json: { email, password } }));
  await dataOf(session.api.users.password.$put({ json: { oldPassword: password, newPassword: 'another horse' } }));
  expect(await ask('POST', '/users/refresh-token', { body: other })).toMatchObject({ code: 401 });
  expect(await ask('POST', '/users/login', { body: { email, password } })).toMatchObject({ code: 401 });
  expect(await dataOf(api.users.login.$post({ json: { email, password: 'another horse' } }))).toBeDefined();
  const fresh = await dataOf(api.users['refresh-token'].$post({ json: { refreshToken } }));
  await ask('POST', '/users/logout', { body: { refreshToken: fresh.refreshToken } });
  expect(await ask('POST', '/users/refresh-token', { body: fresh })).toMatchObject({ code: 401 });
});

describe('API keys', () => {
  it('are made, listed without their value, used and deleted at once', async () => {
    const { api: own } = await signUp();
    const key = await dataOf(own.users['api-keys'].$post({ json: { description: 'A machine' } }));
    const { list, total } = await dataOf(own.users['api-keys'].$get({ query: {} }));
    expect(total).toBe(1);
    expect(list[0]).toEqual({
      keyId: key.keyId,
      description: 'A machine',
      scopes: ['read', 'control', 'manage'],
      productKey: null,
      deviceIds: null,
      createdAt: expect.stringMatching(/Z$/) as string,
      lastUsedAt: null,
    });
    expect(await dataOf(connect(key).users.me.$get())).toBeDefined();
    expect(await dataOf(own.users['api-keys'][':keyId'].$delete({ param: key }))).toEqual({ keyId: key.keyId });
    expect(await ask('GET', '/users/me', { headers: keyPair(key) })).toMatchObject({ status: 401 });
    expect((await dataOf(own.users['api-keys'].$get({ query: {} }))).total).toBe(0);
  });

  it('need no description, and are twenty at most', async () => {
    const { api: own } = await signUp();
    const keys = await Promise.all(Array.from({ length: 20 }, () => dataOf(own.users['api-keys'].$post({ json: {} }))));
    expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(20);
    expect(keys[0]?.description).toBe('');
    await expect(dataOf(own.users['api-keys'].$post({ json: {} }))).rejects.toMatchObject({
      code: 400,
      reason: 'too_many_api_keys',
    });
  });

  it('cannot be deleted by others, and unknown ones are not found', async () => {
    const [one, other] = await Promise.all([signUp(), signUp()]);
    const params = await dataOf(one.api.users['api-keys'].$post({ json: {} }));
    await expect(dataOf(other.api.users['api-keys'][':keyId'].$delete({ param: params }))).rejects.toMatchObject({
      code: 403,
    });
    const unknown = { param: { keyId: 'ak_unknown' } };
    await expect(dataOf(one.api.users['api-keys'][':keyId'].$delete(unknown))).rejects.toMatchObject({ code: 404 });
  });
});
