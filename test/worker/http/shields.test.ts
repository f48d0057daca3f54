// Levers without sign-in: what a stranger's flood costs the database and the objects, and what it is answered.
import { describe, expect, it, vi } from 'vitest';
import { createKey as createKeyOf, type Key } from '../rig/authorization-callers.ts';
import { createUser, makeProduct, type CallOptions } from '../rig/clients/client.ts';
import { limiter, sendWith } from '../rig/limited.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';

const get = (bindings: object, path: string, options: CallOptions = {}) => sendWith(bindings, 'GET', path, options);
const post = (bindings: object, path: string, options: CallOptions) => sendWith(bindings, 'POST', path, options);
const from = (address: string) => ({ 'CF-Connecting-IP': address });

const production = { RATE_LIMITS: 'production' };

describe('health', () => {
  const healthOf = (answer: () => Promise<object>) => {
    const health = vi.fn(answer);
    return { health, BROKER_LINK: { getByName: () => ({ health }) } };
  };
  const up = { bridgeConnected: true, brokerConnected: true };

  it('is checked once for a flood of requests', async () => {
    const { health, BROKER_LINK } = healthOf(() => Promise.resolve(up));
    const database = new RecordedDatabase();
    const changed = { BROKER_LINK, DB: database.binding };
    const answers = await Promise.all(Array.from({ length: 50 }, () => get(changed, '/health')));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect([health.mock.calls.length, database.count('select name from d1_migrations')]).toEqual([1, 1]);
  });

  it('is checked again once the answer is old, sooner where a part was missing', async () => {
    const answers = [{ ...up, bridgeConnected: false }, up, { ...up, bridgeConnected: false }];
    const { BROKER_LINK } = healthOf(() => Promise.resolve(answers.shift() ?? up));
    const changed = { BROKER_LINK };
    const statusAfter = async (ms: number) => {
      vi.setSystemTime(Date.now() + ms);
      return (await get(changed, '/health')).status;
    };
    vi.useFakeTimers({ toFake: ['Date'] });
    const statuses = [];
    for (const ms of [0, 400, 200, 2_900, 200]) statuses.push(await statusAfter(ms));
    expect(statuses).toEqual([503, 503, 200, 200, 503]);
  });

  it.each(['/health', '/api/v1/openapi.json'])('and %s are not read by one address without end', async (path) => {
    const changed = { ...production, ...healthOf(() => Promise.resolve(up)), HEALTH_LIMIT: limiter(3) };
    const statuses = [];
    for (let count = 0; count < 5; count++) {
      statuses.push((await get(changed, path, { headers: from('198.51.100.1') })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    expect((await get(changed, path, { headers: from('198.51.100.2') })).status).toBe(200);
  });
});

it('a signed-in user is refused what is too much for one user, and others are not', async () => {
  const [{ token }, other] = [await createUser(), await createUser()];
  const changed = { ...production, USER_LIMIT: limiter(3) };
  const read = (by: string) => get(changed, '/users/me', { token: by });
  const answers = [];
  for (let count = 0; count < 5; count++) answers.push(await read(token));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
  expect(answers[4]?.headers.get('Retry-After')).toBe('10');
  expect((await read(other.token)).status).toBe(200);
});

describe('the rate of a user', () => {
  /** Answers of requests that are sent at once, and how long some were held back. */
  async function sendAtOnce(count: number, send: () => Promise<Response>) {
    // It lets others run: who polls for an answer would poll for ever.
    const wait = scheduler.wait.bind(scheduler);
    const waits = vi.spyOn(scheduler, 'wait').mockImplementation(() => wait(0));
    vi.useFakeTimers({ toFake: ['Date'] });
    const statuses = (await Promise.all(Array.from({ length: count }, send))).map(({ status }) => status);
    vi.useRealTimers();
    const waitedMs = waits.mock.calls.map(([ms]) => ms).filter((ms) => ms >= 500);
    vi.restoreAllMocks();
    return { statuses, waitedMs };
  }

  it('lets a burst of 30 through at once, then holds requests back for up to two seconds, and refuses more', async () => {
    const [{ token }, other] = [await createUser(), await createUser()];
    const changed = { ...production, LIMITS: 'userRequestsPerSecond=2' };
    const read = (by: string) => get(changed, '/users/me', { token: by });
    const { statuses, waitedMs } = await sendAtOnce(36, () => read(token));
    expect(statuses).toEqual([...Array<number>(34).fill(200), 429, 429]);
    expect(waitedMs).toEqual([500, 1_000, 1_500, 2_000]);
    expect((await read(other.token)).status).toBe(200);
  });

  it('does not count a search, or a change that all devices of a product learn, as one request', async () => {
    const { token } = await createUser();
    const changed = { ...production, LIMITS: 'userRequestsPerSecond=1,userWritesPerSecond=1' };
    const countOf = async (send: () => Promise<Response>) =>
      (await sendAtOnce(36, send)).statuses.filter((status) => status === 200).length;
    const path = `/products/${await makeProduct({ token })}`;
    const change = (body: object) => () => sendWith(changed, 'PUT', path, { token, body });
    expect(await countOf(() => get(changed, '/devices?search=x', { token }))).toBeLessThanOrEqual(7);
    expect(await countOf(change({ offlineGraceSeconds: 5 }))).toBeLessThanOrEqual(3);
    expect(await countOf(change({ name: 'Switch 2' })), 'owed').toBeLessThanOrEqual(1);
  });

  it('is slower for writes, and writes do not hold up reads and commands', async () => {
    const { token } = await createUser();
    const changed = { ...production, LIMITS: 'userWritesPerSecond=1' };
    const createKey = () => post(changed, '/users/api-keys', { token, body: {} });
    const control = () => post(changed, '/devices/dev_00000000/control', { token, body: { action: 'trigger' } });
    const { statuses, waitedMs } = await sendAtOnce(13, createKey);
    expect(statuses).toEqual([...Array<number>(12).fill(200), 429]);
    expect(waitedMs).toEqual([1_000, 2_000]);
    expect((await get(changed, '/users/me', { token })).status).toBe(200);
    expect((await control()).status).toBe(404);
  });
});

it('a page of another site guesses no password with the browsers of its visitors, unless its origin is allowed', async () => {
  const { email } = await createUser();
  const body = { email, password: 'wrong horse' };
  const logIn = async (headers: Record<string, string>, path = '/users/login') =>
    (await post({}, path, { body, headers: { 'Content-Type': 'text/plain', ...headers } })).status;
  const crossSite = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.test' };
  expect(await logIn(crossSite)).toBe(403);
  expect(await logIn({ 'Sec-Fetch-Site': 'cross-site' }), 'without an origin').toBe(403);
  expect(await logIn(crossSite, '/t/x/api/v1/devices/activate')).toBe(403);
  expect(await logIn({ ...crossSite, Origin: 'https://app.test' }), 'of CORS_ORIGINS').toBe(401);
  expect(await logIn({ 'Sec-Fetch-Site': 'same-origin' })).toBe(401);
  expect(await logIn({}), 'no browser').toBe(401);
  expect((await get({}, '/api/v1/openapi.json', { headers: crossSite })).status).toBe(200);
  const { token } = await createUser();
  expect((await post({}, '/users/logout', { token, headers: crossSite, body: {} })).status).not.toBe(403);
});

describe('API keys', () => {
  const ask = (bindings: object, key: Key, address: string) =>
    get(bindings, '/users/me', { key, headers: from(address) });
  const unknownKey = (digit: number) => ({
    keyId: `ak_${String(digit).padStart(20, '0')}`,
    apiKey: `sk_${'0'.repeat(40)}`,
  });
  const createKey = async () => createKeyOf(await createUser());

  it('that do not exist are looked up once', async () => {
    const database = new RecordedDatabase();
    for (let attempt = 0; attempt < 5; attempt++) {
      expect((await ask({ DB: database.binding }, unknownKey(1), '198.51.100.1')).status).toBe(401);
    }
    expect(database.count('"api_keys"')).toBe(1);
  });

  it('that are wrong too often close the address for keys that are not known, and for no others', async () => {
    const known = await createKey();
    const database = new RecordedDatabase();
    const changed = { ...production, DB: database.binding, KEY_FAILURE_LIMIT: limiter(3) };
    const [address, other] = ['198.51.100.3', '198.51.100.4'];
    expect((await ask(changed, known, address)).status).toBe(200);
    const statuses = [];
    for (let digit = 10; digit < 20; digit++) {
      const response = await ask(changed, unknownKey(digit), address);
      statuses.push(response.status);
      if (response.status === 429) expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
    }
    expect(statuses).toEqual([401, 401, 401, 401, ...Array.from({ length: 6 }, () => 429)]);
    const reads = database.count('"api_keys"');
    expect((await ask(changed, unknownKey(30), address)).status).toBe(429);
    expect(database.count('"api_keys"')).toBe(reads);
    // After its cached read has become old, too.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 });
    expect((await ask(changed, known, address)).status).toBe(200);
    vi.useRealTimers();
    expect((await ask(changed, unknownKey(31), other)).status).toBe(401);
  });

  it('in use are read a few times a second, whatever the number of requests', async () => {
    const key = await createKey();
    const database = new RecordedDatabase();
    const startMs = Date.now();
    vi.useFakeTimers({ toFake: ['Date'], now: startMs });
    for (let request = 0; request < 300; request++) {
      vi.setSystemTime(startMs + request * 10);
      expect((await ask({ DB: database.binding }, key, '198.51.100.5')).status).toBe(200);
    }
    // Three seconds.
    expect(database.count('where "api_keys"."key_id" = ?')).toBeLessThanOrEqual(8);
  });
});

describe('activations', () => {
  const activate = (bindings: object, productKey: string, deviceSN: string, address: string) =>
    post(bindings, '/devices/activate', { headers: from(address), body: { productKey, deviceSN } });

  it('of new serial numbers are limited by product, those of known ones are not', async () => {
    const owner = await createUser();
    const [productKey, otherKey] = [await makeProduct(owner), await makeProduct(owner)];
    const changed = { ...production, NEW_DEVICE_LIMIT: limiter(3), NEW_DEVICE_ADDRESS_LIMIT: limiter(100) };
    const statuses = [];
    for (let count = 0; count < 5; count++) {
      statuses.push((await activate(changed, productKey, `SN-${count}`, `198.51.100.${count}`)).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    expect((await activate(changed, productKey, 'SN-0', '198.51.100.9')).status).toBe(200);
    expect((await activate(changed, otherKey, 'SN-0', '198.51.100.9')).status).toBe(200);
  });

  it('of new serial numbers by one address leave the product to others', async () => {
    const productKey = await makeProduct(await createUser());
    const changed = { ...production, NEW_DEVICE_LIMIT: limiter(5), NEW_DEVICE_ADDRESS_LIMIT: limiter(2) };
    const flood = [];
    for (let count = 0; count < 8; count++) {
      flood.push((await activate(changed, productKey, `SN-${count}`, '198.51.100.1')).status);
    }
    expect(flood).toEqual([200, 200, 429, 429, 429, 429, 429, 429]);
    const refused = await activate(changed, productKey, 'SN-9', '198.51.100.1');
    expect(refused.headers.get('Retry-After')).toBe('60');
    expect((await activate(changed, productKey, 'SN-10', '198.51.100.2')).status).toBe(200);
  });
});
