// Limits: attempts at one account, counted exactly, and the flood shields of a deployment.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { createApp } from '../../src/app.ts';
import { openDatabase } from '../../src/db/client.ts';
import { beginLoginAttempt, countFailure } from '../../src/services/login-attempts.ts';
import { call, createUser } from '../rig/workerd/client.ts';

const password = 'correct horse';
let accountCount = 0;

async function createAccount(): Promise<{ email: string; username: string }> {
  const account = { username: `account-${++accountCount}`, email: `account-${accountCount}@example.test` };
  await call('POST', '/users/register', { body: { ...account, password } });
  return account;
}

function logIn(name: string, given: string, address = '192.0.2.1') {
  const headers = { 'CF-Connecting-IP': address };
  return call<{ token: string }>('POST', '/users/login', { body: { username: name, password: given }, headers });
}

/** Opens every closed account: a fake clock would change the token lifetimes and counters of the other tests, too. */
async function waitOut(): Promise<void> {
  await env.DB.prepare('update login_attempts set retry_at = min(retry_at, ?)')
    .bind(Date.now() - 1)
    .run();
}

/** Wrong passwords without their price: what a login counts, each after the wait that the one before it demands. */
async function failTimes(account: string, times: number, address = '192.0.2.1'): Promise<void> {
  const database = openDatabase(env.DB, 'first-primary');
  for (let attempt = 0; attempt < times; attempt++) {
    await waitOut();
    await countFailure(database, await beginLoginAttempt(database, account, address));
  }
}

describe('attempts at one account', () => {
  it('are free five times, then have to wait, twice as long each time', async () => {
    const { username, email } = await createAccount();
    for (let attempt = 0; attempt < 5; attempt++) {
      expect((await logIn(username, 'wrong')).message).toBe('invalid_password');
    }
    const delays = [];
    for (let failures = 5; failures < 10; failures++) {
      const refusal = await logIn(username, 'wrong');
      expect(refusal).toMatchObject({ status: 429, code: 429, message: 'too_many_requests', data: null });
      delays.push(Number(refusal.headers.get('Retry-After')));
      await failTimes(email, 1);
    }
    expect(delays).toEqual([1, 2, 4, 8, 16]);
  });

  it('wait as long as the rule says, and never longer than 15 minutes', async () => {
    for (const [failures, waitSeconds] of [
      [1, 0],
      [4, 1],
      [5, 2],
      [6, 4],
      [13, 512],
      [14, 900],
      [40, 900],
      [5_000, 900],
    ] as const) {
      const account = `ruled-${failures}`;
      await failTimes(account, 1);
      await env.DB.prepare('update login_attempts set failures = ? where failures = 1').bind(failures).run();
      await failTimes(account, 1);
      const answer = await env.DB.prepare('select retry_at from login_attempts where failures = ?')
        .bind(failures + 1)
        .first<{ retry_at: number }>();
      const waitMs = Math.max(0, answer!.retry_at - Date.now());
      expect(Math.ceil(waitMs / 1000)).toBe(waitSeconds);
      await env.DB.prepare('delete from login_attempts').run();
    }
  });

  it('are counted over username and email, and alike where there is no account', async () => {
    const { username, email } = await createAccount();
    await failTimes(email, 3);
    expect((await logIn(username, 'wrong')).status).toBe(401);
    expect((await logIn(email.toUpperCase(), 'wrong')).status).toBe(401);
    expect((await logIn(username, 'wrong')).headers.get('Retry-After')).toBe('1');
    await failTimes('nobody@example.test', 4);
    expect((await logIn('Nobody@example.test', 'wrong')).status).toBe(401);
    expect((await logIn('Nobody@example.test', 'wrong')).headers.get('Retry-After')).toBe('1');
  });

  it('that are sent at once reveal no more than one after the other', async () => {
    const { username, email } = await createAccount();
    await failTimes(email, 9);
    await waitOut();
    const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => logIn(username, `guess ${index}`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([401, ...Array.from({ length: 7 }, () => 429)]);
    expect((await logIn(username, password)).status).toBe(429);
  });

  it('with the right password do not get into each other’s way', async () => {
    const { username } = await createAccount();
    const answers = await Promise.all(Array.from({ length: 8 }, () => logIn(username, password)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  });

  it('are forgotten with the right password, and after a day', async () => {
    const { username, email } = await createAccount();
    await failTimes(email, 4);
    expect((await logIn(username, password)).status).toBe(200);
    await failTimes(email, 4);
    await env.DB.prepare('update login_attempts set expires_at = ?').bind(Date.now()).run();
    await failTimes(email, 4);
    expect((await logIn(username, password)).status).toBe(200);
  });

  it('by a stranger do not keep the owner out of an address that logged in before', async () => {
    const { username, email } = await createAccount();
    const home = '2001:db8:1:2:3::4';
    expect((await logIn(username, password, home)).status).toBe(200);
    await failTimes(email, 5);
    expect((await logIn(username, password, '203.0.113.9')).status).toBe(429);
    expect((await logIn(username, password, '2001:db8:1:2:ffff::1')).status).toBe(200);
    await failTimes(email, 8, '2001:db8:1:2::/64');
    expect((await logIn(username, password, home)).status).toBe(429);
  });

  it('count for the old password of a change as well', async () => {
    const { username, email } = await createAccount();
    const { token } = (await logIn(username, password)).data;
    await env.DB.prepare('delete from login_attempts').run();
    await failTimes(email, 4);
    const change = () =>
      call('PUT', '/users/password', { token, body: { oldPassword: 'wrong', newPassword: 'another horse' } });
    expect((await change()).message).toBe('invalid_password');
    expect(await change()).toMatchObject({ status: 429, message: 'too_many_requests' });
  });
});

describe('the flood shields of a deployment', () => {
  const app = createApp();
  const production = { ...env, RATE_LIMITS: 'production', LIMITS: 'refusalDelayMs=0' } as unknown as Env;

  async function post(path: string, body: object, headers: Record<string, string>): Promise<Response> {
    const request = new Request(`https://latchwork.test${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return app.fetch(request, production, createExecutionContext());
  }

  /** How many of `times` cheap requests from one address are let through. */
  async function countLetThrough(path: string, times: number, headers: Record<string, string>): Promise<number> {
    let letThrough = 0;
    for (let count = 0; count < times; count++) {
      const response = await post(path, {}, headers);
      if (response.status !== 429) letThrough += 1;
      else expect(response.headers.get('Retry-After')).toBe('60');
      await response.body?.cancel();
    }
    return letThrough;
  }

  it.each([
    ['/api/v1/users/register', 20],
    ['/api/v1/users/login', 60],
    ['/api/v1/users/refresh-token', 120],
  ])('let %s through %i times a minute from one address, and others meanwhile', async (path, limit) => {
    // One more than two minutes' worth, because the minute may turn while they are sent.
    const letThrough = await countLetThrough(path, 2 * limit + 1, { 'CF-Connecting-IP': '198.51.100.7' });
    expect(letThrough).toBeGreaterThanOrEqual(limit);
    expect(letThrough).toBeLessThanOrEqual(2 * limit);
    expect((await post(path, {}, { 'CF-Connecting-IP': '198.51.100.8' })).status).toBe(400);
  });

  it('never lock out twenty devices behind one address that retry every five seconds', async () => {
    const path = '/api/v1/devices/activate';
    expect(await countLetThrough(path, 400, { 'CF-Connecting-IP': '198.51.100.9' })).toBe(400);
  });

  it('are left out where they are relaxed', async () => {
    const answers = await Promise.all(Array.from({ length: 100 }, () => call('POST', '/users/register', { body: {} })));
    expect(answers.every(({ status }) => status === 400)).toBe(true);
  });

  it('let everything through when a shield itself fails', async () => {
    const broken = { limit: () => Promise.reject(new Error('limiter down')) };
    const request = new Request('https://latchwork.test/api/v1/users/login', { method: 'POST', body: '{}' });
    const response = await app.fetch(request, { ...production, LOGIN_LIMIT: broken }, createExecutionContext());
    expect(response.status).toBe(400);
  });

  it('count by address, those of one IPv6 network as one, and commands by user', async () => {
    const { token } = await createUser();
    const seen: string[] = [];
    const LOGIN_LIMIT = { limit: ({ key }: { key: string }) => (seen.push(key), Promise.resolve({ success: false })) };
    const watched = { ...production, LOGIN_LIMIT, CONTROL_LIMIT: LOGIN_LIMIT };
    const send = async (path: string, headers: Record<string, string>) => {
      const request = new Request(`https://latchwork.test/api/v1${path}`, { method: 'POST', headers, body: '{}' });
      expect((await app.fetch(request, watched, createExecutionContext())).status).toBe(429);
    };
    await send('/users/login', { 'CF-Connecting-IP': '198.51.100.7' });
    await send('/users/login', { 'CF-Connecting-IP': '2001:db8::1' });
    await send('/users/login', { 'CF-Connecting-IP': '2001:db8:0:0:5:6:7:8' });
    await send('/devices/dev_00000000/control', { Authorization: `Bearer ${token}` });
    expect(seen).toEqual([
      '198.51.100.7',
      '2001:db8:0:0::/64',
      '2001:db8:0:0::/64',
      expect.stringMatching(/^user \d+$/),
    ]);
  });
});
