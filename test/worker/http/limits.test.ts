// Limits: attempts at one account, counted exactly, and the flood shields of a deployment.
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { openDatabase } from '../../../src/db/client.ts';
import { keepLoginDevice } from '../../../src/db/accounts/login-attempts.ts';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { RefusedError } from '../../../src/domain/refusal.ts';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { beginLoginAttempt, maxDevices } from '../../../src/services/accounts/login-attempts.ts';
import { PasswordQueue, passwordQueueOf } from '../../../src/pacing/password-queue.ts';
import { call, createUser } from '../rig/clients/client.ts';
import { sendWith } from '../rig/limited.ts';

const password = 'correct horse';
const { limits } = readConfig(env);
let accountCount = 0;

async function createAccount(): Promise<{ email: string; username: string }> {
  const account = { username: `account-${++accountCount}`, email: `account-${accountCount}@example.test` };
  await call('POST', '/users/register', { body: { ...account, password } });
  return account;
}

type Session = { token: string; deviceToken: string; user: { userId: number } };

function logIn(name: string, given: string, address = '192.0.2.1', deviceToken: string | null = null) {
  const headers = { 'CF-Connecting-IP': address };
  return call<Session>('POST', '/users/login', { body: { username: name, password: given, deviceToken }, headers });
}

/** Opens every closed throttle key: a fake clock would change the token lifetimes and counters of the other tests, too. */
async function waitOut(): Promise<void> {
  await env.DB.prepare('update login_attempts set last_failed_at = 0').run();
}

/** Wrong passwords without their price: what a login counts, each after the wait that the one before it demands. */
async function failTimes(account: string, times: number, address = '192.0.2.1'): Promise<void> {
  const database = openDatabase(env.DB);
  for (let attempt = 0; attempt < times; attempt++) {
    await waitOut();
    const client = { account, userId: undefined, clientAddress: address, shownToken: undefined };
    await (await beginLoginAttempt(database, limits, client)).countFailure();
  }
}

describe('attempts at one account', () => {
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

  it('by a stranger do not keep the owner out of another address', async () => {
    const { username, email } = await createAccount();
    await failTimes(email, 8, '203.0.113.9');
    expect((await logIn(username, password, '203.0.113.9')).status).toBe(429);
    expect((await logIn(username, password, '2001:db8:1:2:3::4')).status).toBe(200);
    // One IPv6 network is one address.
    await failTimes(email, 8, '2001:db8:1:2::/64');
    expect((await logIn(username, password, '2001:db8:1:2:ffff::1')).status).toBe(429);
  });

  it('of all addresses together wait a few seconds once the free ones of a day are used up', async () => {
    const { username, email } = await createAccount();
    await failTimes(email, 1, '203.0.113.1');
    await env.DB.prepare('update login_attempts set failures = ?').bind(limits.loginFreeAttemptsPerDay).run();
    await failTimes(email, 1, '203.0.113.2');
    const refusal = await logIn(username, password, '203.0.113.3');
    expect(refusal).toMatchObject({ status: 429, message: 'too_many_requests' });
    expect(['4', '5']).toContain(refusal.headers.get('Retry-After'));
    await waitOut();
    expect((await logIn(username, password, '203.0.113.3')).status).toBe(200);
  });

  it('by strangers at the same address never make a device wait that shows its token', async () => {
    const { username, email } = await createAccount();
    const address = '203.0.113.20';
    const { deviceToken } = (await logIn(username, password, address)).data;
    expect(deviceToken).toMatch(/^dt_[A-Za-z0-9]{43}$/);
    await failTimes(email, 8, address);
    expect((await logIn(username, password, address)).status).toBe(429);
    const again = await logIn(username, password, address, deviceToken);
    expect(again).toMatchObject({ status: 200, data: { deviceToken } });
    // Its own wrong passwords are counted by themselves.
    for (let attempt = 0; attempt < 5; attempt++) {
      expect((await logIn(username, 'wrong', '203.0.113.21', deviceToken)).status).toBe(401);
    }
    expect((await logIn(username, password, '203.0.113.21', deviceToken)).status).toBe(429);
    expect((await logIn(username, password, '203.0.113.21')).status).toBe(200);
  });

  it('are not counted apart for a token of another account, a forged one, or one that has ended', async () => {
    const [one, other] = [await createAccount(), await createAccount()];
    const address = '203.0.113.30';
    const { deviceToken } = (await logIn(other.username, password)).data;
    await failTimes(one.email, 8, address);
    for (const token of [deviceToken, `dt_${'0'.repeat(43)}`, 'x', '']) {
      expect((await logIn(one.username, password, address, token)).status).toBe(429);
    }
    await failTimes(other.email, 8, address);
    await env.DB.prepare('update login_devices set expires_at = ?').bind(Date.now()).run();
    expect((await logIn(other.username, password, address, deviceToken)).status).toBe(429);
  });

  it('from devices: a user has twenty, and those that show their tokens stay', async () => {
    const { username } = await createAccount();
    const { deviceToken } = (await logIn(username, password)).data;
    const userId = (await logIn(username, password, '192.0.2.1', deviceToken)).data.user.userId;
    const database = openDatabase(env.DB);
    for (let login = 0; login < 40; login++) {
      const device = { hash: `hash ${userId} ${login}`, userId, createdAt: Date.now() + login, shownAt: null };
      await keepLoginDevice(database, { ...device, expiresAt: Date.now() + 1e6 }, maxDevices);
    }
    const count = await env.DB.prepare('select count(*) as n from login_devices where user_id = ?')
      .bind(userId)
      .first<{ n: number }>();
    expect(count!.n).toBe(20);
    expect((await logIn(username, password, '192.0.2.1', deviceToken)).data.deviceToken).toBe(deviceToken);
  });

  it('from a device that was trusted before the password changed are a stranger’s', async () => {
    const { username, email } = await createAccount();
    const kept = (await logIn(username, password)).data;
    const other = (await logIn(username, password)).data;
    const body = { oldPassword: password, newPassword: 'another horse', deviceToken: kept.deviceToken };
    expect((await call('PUT', '/users/password', { token: kept.token, body })).status).toBe(200);
    await failTimes(email, 8);
    expect((await logIn(username, 'another horse', '192.0.2.1', other.deviceToken)).status).toBe(429);
    expect((await logIn(username, 'another horse', '192.0.2.1', kept.deviceToken)).status).toBe(200);
  });

  it('count for the old password of a change as well', async () => {
    const { username, email } = await createAccount();
    const { token } = (await logIn(username, password)).data;
    await env.DB.prepare('delete from login_attempts').run();
    await failTimes(email, 4);
    const headers = { 'CF-Connecting-IP': '192.0.2.1' };
    const body = { oldPassword: 'wrong', newPassword: 'another horse' };
    const change = () => call('PUT', '/users/password', { token, body, headers });
    expect((await change()).message).toBe('invalid_password');
    expect(await change()).toMatchObject({ status: 429, message: 'too_many_requests' });
  });
});

describe('passwords that are to be hashed', () => {
  const sizes = { waiting: 2, waitingPerAddress: 2, waitMs: 5_000, restMs: 0 };
  const stranger = { isKnown: false, address: '192.0.2.1' };
  const known = { isKnown: true, address: '192.0.2.1' };

  /** Hashes that end when they are told to. */
  function heldHashes() {
    const ends: (() => void)[] = [];
    const hash = (name: string) => () => new Promise<string>((resolve) => ends.push(() => resolve(name)));
    const endAll = async (count: number) => {
      for (let ended = 0; ended < count; ended++) {
        await vi.waitFor(() => expect(ends).toHaveLength(ended + 1));
        ends[ended]!();
      }
    };
    return { ends, hash, endAll };
  }

  it('wait in a queue, known clients first, and are refused if it is full', async () => {
    const queue = new PasswordQueue(sizes);
    const { ends, hash, endAll } = heldHashes();
    const turns = ['first', 'second', 'third'].map((name) => queue.run(stranger, hash(name)));
    await vi.waitFor(() => expect(ends).toHaveLength(1));
    await expect(queue.run(stranger, hash('fourth'))).rejects.toMatchObject({
      refusal: { kind: 'rate_limited', limit: 'password_queue', retryAfterSeconds: 2 },
    });
    expect(() => queue.refuseIfFull(stranger)).toThrow();
    expect(() => queue.refuseIfFull(known)).not.toThrow();
    turns.push(queue.run(known, hash('known')));
    const order: string[] = [];
    for (const turn of turns) void turn.then((name) => order.push(name));
    await endAll(4);
    await Promise.all(turns);
    expect(order).toEqual(['first', 'known', 'second', 'third']);
  });

  it('of one address leave room for strangers of other addresses', async () => {
    const queue = new PasswordQueue({ ...sizes, waiting: 3, waitingPerAddress: 1 });
    const { ends, hash, endAll } = heldHashes();
    const turns = ['first', 'second'].map((name) => queue.run(stranger, hash(name)));
    await vi.waitFor(() => expect(ends).toHaveLength(1));
    await expect(queue.run(stranger, hash('third'))).rejects.toThrow();
    turns.push(queue.run({ isKnown: false, address: '192.0.2.2' }, hash('other')));
    await endAll(3);
    expect(await Promise.all(turns)).toEqual(['first', 'second', 'other']);
  });

  it('are followed by a rest', async () => {
    const restMs = 100;
    const queue = new PasswordQueue({ ...sizes, restMs });
    const order: string[] = [];
    const wait = scheduler.wait.bind(scheduler);
    vi.spyOn(scheduler, 'wait').mockImplementation(async (ms) => {
      if (ms !== restMs) return wait(ms);
      order.push('rest begins');
      await wait(0);
      order.push('rest ends');
    });
    const hash = () => Promise.resolve(order.push('hash'));
    await Promise.all([queue.run(stranger, hash), queue.run(stranger, hash)]);
    expect(order.slice(0, 4)).toEqual(['hash', 'rest begins', 'rest ends', 'hash']);
  });

  it('are refused if their turn does not come in time, and leave the queue', async () => {
    const queue = new PasswordQueue({ ...sizes, waiting: 1, waitMs: 20 });
    const { ends, hash } = heldHashes();
    const first = queue.run(stranger, hash('first'));
    await vi.waitFor(() => expect(ends).toHaveLength(1));
    await expect(queue.run(stranger, hash('second'))).rejects.toThrow();
    expect(() => queue.refuseIfFull(stranger)).not.toThrow();
    ends[0]!();
    expect(await first).toBe('first');
    expect(await queue.run(stranger, () => Promise.resolve('third'))).toBe('third');
  });

  it('free their place if hashing fails', async () => {
    const queue = new PasswordQueue(sizes);
    await expect(queue.run(stranger, () => Promise.reject(new Error('out of memory')))).rejects.toThrow();
    expect(await queue.run(stranger, () => Promise.resolve('next'))).toBe('next');
  });

  it('of an unknown name are hashed as well: no answer comes sooner because there is no account', async () => {
    const normalize = vi.spyOn(String.prototype, 'normalize');
    expect((await logIn('nobody', 'never a password')).status).toBe(401);
    // The step before scrypt; names are brought to another form.
    const results = normalize.mock.results.map(({ value }) => String(value));
    const hashed = results.filter((_, index) => normalize.mock.calls[index]?.[0] === 'NFC');
    normalize.mockRestore();
    expect(hashed).toEqual(['never a password']);
  });

  it('of a stranger are refused before the database is asked if the queue is full, of a known client not', async () => {
    const { username } = await createAccount();
    const address = '203.0.113.40';
    expect((await logIn(username, password, address)).status).toBe(200);
    const queue = passwordQueueOf(readConfig(env));
    const isFull = vi.spyOn(queue, 'refuseIfFull').mockImplementation(({ isKnown }) => {
      if (!isKnown) throw new RefusedError({ kind: 'rate_limited', limit: 'password_queue', retryAfterSeconds: 2 });
    });
    expect((await logIn(username, password, '203.0.113.41')).status).toBe(429);
    expect((await logIn(username, password, address)).status).toBe(200);
    isFull.mockRestore();
  });
});

describe('the flood shields of a deployment', () => {
  const post = (path: string, headers: Record<string, string>, bindings: object = {}) =>
    sendWith({ RATE_LIMITS: 'production', ...bindings }, 'POST', path, { headers, body: {} });

  it.each([
    ['/users/register', 20],
    ['/users/login', 60],
    ['/users/refresh-token', 120],
  ])('let %s through %i times a minute from one address, and others meanwhile', async (path, limit) => {
    let letThrough = 0;
    // One more than two minutes' worth, because the minute may turn while they are sent.
    for (let count = 0; count < 2 * limit + 1; count++) {
      const response = await post(path, { 'CF-Connecting-IP': '198.51.100.7' });
      if (response.status !== 429) letThrough += 1;
      else expect(response.headers.get('Retry-After')).toBe('60');
      await response.body?.cancel();
    }
    expect(letThrough).toBeGreaterThanOrEqual(limit);
    expect(letThrough).toBeLessThanOrEqual(2 * limit);
    expect((await post(path, { 'CF-Connecting-IP': '198.51.100.8' })).status).toBe(400);
  });

  it('let everything through when a shield itself fails', async () => {
    const broken = { limit: () => Promise.reject(new Error('limiter down')) };
    expect((await post('/users/login', {}, { LOGIN_LIMIT: broken })).status).toBe(400);
  });

  it('count by address, those of one IPv6 network as one, and commands by user', async () => {
    const { token } = await createUser();
    const seen: string[] = [];
    const LOGIN_LIMIT = { limit: ({ key }: { key: string }) => (seen.push(key), Promise.resolve({ success: false })) };
    for (const [path, headers] of [
      ['/users/login', { 'CF-Connecting-IP': '198.51.100.7' }],
      ['/users/login', { 'CF-Connecting-IP': '2001:db8::1' }],
      ['/users/login', { 'CF-Connecting-IP': '2001:db8:0:0:5:6:7:8' }],
      ['/devices/dev_00000000/control', { Authorization: `Bearer ${token}` }],
    ] as const) {
      expect((await post(path, headers, { LOGIN_LIMIT, CONTROL_LIMIT: LOGIN_LIMIT })).status).toBe(429);
    }
    const network = '2001:db8:0:0::/64';
    expect(seen).toEqual(['198.51.100.7', network, network, expect.stringMatching(/^user \d+$/)]);
  });
});

it('expired rows are deleted some at a time, minute after minute', async () => {
  await env.DB.prepare('delete from login_attempts').run();
  await env.DB.prepare(
    `insert into login_attempts (throttle_key, failures, last_failed_at, expires_at)
    select value, 1, 0, iif(value = 'open', 9e15, 1) from json_each('["a", "b", "c", "open"]')`,
  ).run();
  const countLeft = async () => (await env.DB.prepare('select throttle_key from login_attempts').all()).results.length;
  await deleteExpiredRows(openDatabase(env.DB), Date.now(), 2);
  expect(await countLeft()).toBe(2);
  const newest = '(select max(hash) from refresh_tokens)';
  await env.DB.prepare(`update refresh_tokens set expires_at = iif(hash = ${newest}, 9e15, 1)`).run();
  await runScheduledJobs(env);
  expect(await countLeft()).toBe(1);
  expect((await env.DB.prepare('select hash from refresh_tokens').all()).results).toHaveLength(1);
});
