// Levers without sign-in: what a stranger's flood costs the database and the objects, and what it is answered.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { inStrangersTurn } from '../../../src/pacing/stranger-turns.ts';
import { call, createUser } from '../rig/clients/client.ts';
import { hookSecret } from '../rig/clients/hooks.ts';

type Key = { keyId: string; apiKey: string };

const app = createApp();
const noBody = { method: 'GET' };

function ask(changed: Env, path: string, headers: Record<string, string>, init: RequestInit = noBody) {
  const request = new Request(`https://latchwork.test${path}`, { ...init, headers });
  return Promise.resolve(app.fetch(request, changed, createExecutionContext()));
}

/** D1 that counts the statements whose text holds `part`. */
function countStatements(part: string): { DB: D1Database; count: () => number } {
  let count = 0;
  const DB = {
    withSession(consistency: D1SessionConstraint) {
      const session = env.DB.withSession(consistency);
      return {
        prepare(statement: string) {
          if (statement.includes(part)) count += 1;
          return session.prepare(statement);
        },
        batch: (prepared: D1PreparedStatement[]) => session.batch(prepared),
      };
    },
  } as unknown as D1Database;
  return { DB, count: () => count };
}

/** A limiter of `limit` uses a key. */
function limiter(limit: number): RateLimit {
  const uses = new Map<string, number>();
  return {
    limit: ({ key }) => {
      uses.set(key, (uses.get(key) ?? 0) + 1);
      return Promise.resolve({ success: (uses.get(key) ?? 0) <= limit });
    },
  };
}

const production = { ...env, RATE_LIMITS: 'production', LIMITS: 'refusalDelayMs=0' } as unknown as Env;

describe('health', () => {
  const healthOf = (answer: () => Promise<object>) => {
    const health = vi.fn(answer);
    return { health, BROKER_LINK: { getByName: () => ({ health }) } as unknown as Env['BROKER_LINK'] };
  };
  const up = { bridgeConnected: true, brokerConnected: true };

  it('is checked once for a flood of requests', async () => {
    const { health, BROKER_LINK } = healthOf(() => Promise.resolve(up));
    const { DB, count } = countStatements('select name from d1_migrations');
    const changed = { ...env, BROKER_LINK, DB };
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(changed, '/health', {})));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect([health.mock.calls.length, count()]).toEqual([1, 1]);
  });

  it('is checked again once the answer is old, sooner where a part was missing', async () => {
    const answers = [{ ...up, bridgeConnected: false }, up, { ...up, bridgeConnected: false }];
    const { BROKER_LINK } = healthOf(() => Promise.resolve(answers.shift() ?? up));
    const changed = { ...env, BROKER_LINK };
    const statusAfter = async (ms: number) => {
      vi.setSystemTime(Date.now() + ms);
      return (await ask(changed, '/health', {})).status;
    };
    vi.useFakeTimers({ toFake: ['Date'] });
    const statuses = [];
    for (const ms of [0, 400, 200, 2_900, 200]) statuses.push(await statusAfter(ms));
    vi.useRealTimers();
    expect(statuses).toEqual([503, 503, 200, 200, 503]);
  });

  it('is limited by address', async () => {
    const changed = { ...production, ...healthOf(() => Promise.resolve(up)), HEALTH_LIMIT: limiter(3) };
    const statuses = [];
    for (let count = 0; count < 5; count++) {
      statuses.push((await ask(changed, '/health', { 'CF-Connecting-IP': '198.51.100.1' })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    expect((await ask(changed, '/health', { 'CF-Connecting-IP': '198.51.100.2' })).status).toBe(200);
  });
});

describe('a refusal of a flood shield', () => {
  it('is held back, until too many are', async () => {
    const waits: (() => void)[] = [];
    vi.spyOn(scheduler, 'wait').mockImplementation(() => new Promise((resolve) => waits.push(resolve)));
    const changed = { ...production, LIMITS: 'delayedRefusals=2', HEALTH_LIMIT: limiter(0) } as unknown as Env;
    const held = [ask(changed, '/health', {}), ask(changed, '/health', {})];
    await vi.waitFor(() => expect(waits).toHaveLength(2));
    expect((await ask(changed, '/health', {})).status).toBe(429);
    for (const end of waits) end();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([429, 429]);
    vi.restoreAllMocks();
  });
});

describe('refusals of the API', () => {
  it('are answered at once up to a burst, then evenly apart, and at most for the delay of a refusal', async () => {
    const waits: { ms: number; end: () => void }[] = [];
    vi.spyOn(scheduler, 'wait').mockImplementation((ms) => new Promise((end) => waits.push({ ms, end })));
    const LIMITS = 'refusalBurst=2,refusalsPerSecond=10,refusalDelayMs=150';
    const changed = { ...production, LIMITS } as unknown as Env;
    vi.useFakeTimers({ toFake: ['Date'] });
    for (const path of ['/api/v1/users/me', '/api/v1/nothing']) {
      expect((await ask(changed, path, {})).status).toBeGreaterThanOrEqual(401);
    }
    expect(waits).toEqual([]);
    const held = Array.from({ length: 3 }, () => ask(changed, '/api/v1/users/me', {}));
    // `vi.waitFor` would let the clock go on.
    while (waits.length < 3) await new Promise((resolve) => setTimeout(resolve, 1));
    vi.useRealTimers();
    expect(waits.map(({ ms }) => ms)).toEqual([100, 150, 150]);
    for (const { end } of waits) end();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([401, 401, 401]);
    // Who may do what he asks for does not wait, and nobody waits where limits are relaxed.
    const { token } = await createUser();
    expect((await ask(changed, '/api/v1/users/me', { Authorization: `Bearer ${token}` })).status).toBe(200);
    const relaxed = { ...changed, RATE_LIMITS: 'relaxed' } as unknown as Env;
    expect((await ask(relaxed, '/api/v1/users/me', {})).status).toBe(401);
    expect(waits).toHaveLength(3);
    vi.restoreAllMocks();
  });
});

describe('WebSockets', () => {
  it('are opened at once up to a burst, then evenly apart, at relay and edge', async () => {
    const waits: { ms: number; end: () => void }[] = [];
    vi.spyOn(scheduler, 'wait').mockImplementation((ms) => new Promise((end) => waits.push({ ms, end })));
    const changed = { ...production, LIMITS: 'openingBurst=1,openingsPerSecond=10' } as unknown as Env;
    vi.useFakeTimers({ toFake: ['Date'] });
    const open = (path: string) => ask(changed, path, { Upgrade: 'websocket' });
    expect((await open('/mqtt')).status).toBe(101);
    const held = [open('/mqtt'), open('/mqtt/dev_00000000')];
    while (waits.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    vi.useRealTimers();
    expect(waits.map(({ ms }) => ms)).toEqual([100, 200]);
    for (const { end } of waits) end();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([101, 404]);
    vi.restoreAllMocks();
  });
});

describe('refusals outside the API', () => {
  const authorized = (secret: string) => ({ Authorization: `Bearer ${secret}` });
  const post = { method: 'POST', body: '{}' };
  const emqx = '/hooks/emqx/connect';

  it.each([
    ['a hook', emqx, post],
    ['the bridge', '/bridge/uplink', post],
    ["the operator's routes", '/operator/metrics', noBody],
    ['a device that is not there', '/mqtt/dev_99999999', noBody],
    ['no route', '/nothing', noBody],
  ])('are held back, too: %s', async (_, path, init) => {
    const waits: (() => void)[] = [];
    vi.spyOn(scheduler, 'wait').mockImplementation(() => new Promise((resolve) => waits.push(resolve)));
    const changed = { ...production, LIMITS: 'refusalBurst=1,refusalsPerSecond=1' } as unknown as Env;
    expect((await ask(changed, path, authorized('wrong'), init)).status).toBeLessThan(500);
    const held = ask(changed, path, authorized('wrong'), init);
    await vi.waitFor(() => expect(waits).toHaveLength(1));
    // What a broker asks with its secret is answered at once, whatever it is about.
    if (path === emqx) expect((await ask(changed, `${path}/none`, authorized(hookSecret), init)).status).toBe(404);
    for (const end of waits) end();
    expect((await held).status).toBeGreaterThanOrEqual(400);
    expect(waits).toHaveLength(1);
    vi.restoreAllMocks();
  });
});

describe('a signed-in user', () => {
  it('is refused what is too much for one user, and others are not', async () => {
    const [{ token }, other] = [await createUser(), await createUser()];
    const changed = { ...production, USER_LIMIT: limiter(3) };
    const read = (by: string) => ask(changed, '/api/v1/users/me', { Authorization: `Bearer ${by}` });
    const answers = [];
    for (let count = 0; count < 5; count++) answers.push(await read(token));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429]);
    expect(answers[4]?.headers.get('Retry-After')).toBe('10');
    expect((await read(other.token)).status).toBe(200);
  });
});

describe('the pace of a user', () => {
  it('lets a burst through at once, then holds requests back, and refuses what would wait too long', async () => {
    const [{ token }, other] = [await createUser(), await createUser()];
    const LIMITS = 'refusalDelayMs=0,userRequestBurst=2,userRequestsPerSecond=10,userRequestWaitMs=150';
    const changed = { ...production, LIMITS } as unknown as Env;
    const waits = vi.spyOn(scheduler, 'wait');
    const read = (by: string) => ask(changed, '/api/v1/users/me', { Authorization: `Bearer ${by}` });
    vi.useFakeTimers({ toFake: ['Date'] });
    const answers = await Promise.all(Array.from({ length: 4 }, () => read(token)));
    expect((await read(other.token)).status).toBe(200);
    vi.useRealTimers();
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers[3]?.headers.get('Retry-After')).toBe('1');
    expect(waits.mock.calls.map(([ms]) => ms).filter((ms) => ms > 0)).toEqual([100]);
    vi.restoreAllMocks();
  });
});

describe('the pace of what a user writes', () => {
  it('is slower than that of reads and of commands, and does not hold these up', async () => {
    const { token } = await createUser();
    const LIMITS = 'refusalDelayMs=0,userWriteBurst=2,userWritesPerSecond=10,userRequestWaitMs=150';
    const changed = { ...production, LIMITS } as unknown as Env;
    const headers = { Authorization: `Bearer ${token}` };
    const waits = vi.spyOn(scheduler, 'wait');
    const createKey = () => ask(changed, '/api/v1/users/api-keys', headers, { method: 'POST', body: '{}' });
    const control = () =>
      ask(changed, '/api/v1/devices/dev_00000000/control', headers, { method: 'POST', body: '{"action":"trigger"}' });
    vi.useFakeTimers({ toFake: ['Date'] });
    const written = await Promise.all(Array.from({ length: 4 }, createKey));
    expect((await ask(changed, '/api/v1/users/me', headers)).status).toBe(200);
    expect((await control()).status).toBe(404);
    vi.useRealTimers();
    expect(written.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(written[3]?.headers.get('Retry-After')).toBe('1');
    expect(waits.mock.calls.map(([ms]) => ms).filter((ms) => ms > 0)).toEqual([100]);
    vi.restoreAllMocks();
  });
});

describe('what strangers can make the database do', () => {
  const contextOf = (limits: string) => ({ config: readConfig({ ...production, LIMITS: limits } as unknown as Env) });

  it('is done two at a time, and refused where too many wait', async () => {
    const context = contextOf('strangerQueue=2,strangerPauseMs=0');
    const ends: (() => void)[] = [];
    const work = () => new Promise<void>((resolve) => ends.push(resolve));
    const first = [inStrangersTurn(context, work), inStrangersTurn(context, work)];
    await vi.waitFor(() => expect(ends).toHaveLength(2));
    const next = [inStrangersTurn(context, work), inStrangersTurn(context, work)];
    await expect(inStrangersTurn(context, work)).rejects.toMatchObject({
      refusal: { kind: 'rate_limited', limit: 'strangerQueue', retryAfterSeconds: 2 },
    });
    expect(ends).toHaveLength(2);
    for (const end of ends) end();
    await Promise.all(first);
    await vi.waitFor(() => expect(ends).toHaveLength(4));
    for (const end of ends) end();
    await Promise.all(next);
  });

  it('frees its place where it fails', async () => {
    const context = contextOf('strangerPauseMs=0');
    const fail = () => Promise.reject(new Error('failed'));
    for (let count = 0; count < 5; count++) await expect(inStrangersTurn(context, fail)).rejects.toThrow('failed');
  });
});

describe('API keys', () => {
  const withKey = ({ keyId, apiKey }: Key, address: string) => ({
    'X-API-Key': keyId,
    'X-API-Secret': apiKey,
    'CF-Connecting-IP': address,
  });
  const unknownKey = (digit: number) => ({
    keyId: `ak_${String(digit).padStart(20, '0')}`,
    apiKey: `sk_${'0'.repeat(40)}`,
  });
  async function createKey(): Promise<Key> {
    const { token } = await createUser();
    return (await call<Key>('POST', '/users/api-keys', { token, body: {} })).data;
  }

  it('that do not exist are looked up once', async () => {
    const { DB, count } = countStatements('"api_keys"');
    for (let attempt = 0; attempt < 5; attempt++) {
      const response = await ask({ ...env, DB }, '/api/v1/users/me', withKey(unknownKey(1), '198.51.100.1'));
      expect(response.status).toBe(401);
    }
    expect(count()).toBe(1);
  });

  it('that are wrong too often close the address for keys that are not known, and for no others', async () => {
    const known = await createKey();
    const { DB, count } = countStatements('"api_keys"');
    const changed = { ...production, DB, KEY_FAILURE_LIMIT: limiter(3) };
    const [address, other] = ['198.51.100.3', '198.51.100.4'];
    expect((await ask(changed, '/api/v1/users/me', withKey(known, address))).status).toBe(200);
    const statuses = [];
    for (let digit = 10; digit < 20; digit++) {
      const response = await ask(changed, '/api/v1/users/me', withKey(unknownKey(digit), address));
      statuses.push(response.status);
      if (response.status === 429) expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
    }
    expect(statuses).toEqual([401, 401, 401, 401, ...Array.from({ length: 6 }, () => 429)]);
    const reads = count();
    expect((await ask(changed, '/api/v1/users/me', withKey(unknownKey(30), address))).status).toBe(429);
    expect(count()).toBe(reads);
    // After its cached read has become old, too.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 });
    expect((await ask(changed, '/api/v1/users/me', withKey(known, address))).status).toBe(200);
    vi.useRealTimers();
    expect((await ask(changed, '/api/v1/users/me', withKey(unknownKey(31), other))).status).toBe(401);
  });

  it('in use are read a few times a second, whatever the number of requests', async () => {
    const key = await createKey();
    const { DB, count } = countStatements('where "api_keys"."key_id" = ?');
    const startMs = Date.now();
    vi.useFakeTimers({ toFake: ['Date'], now: startMs });
    for (let request = 0; request < 300; request++) {
      vi.setSystemTime(startMs + request * 10);
      expect((await ask({ ...env, DB }, '/api/v1/users/me', withKey(key, '198.51.100.5'))).status).toBe(200);
    }
    vi.useRealTimers();
    // Three seconds.
    expect(count()).toBeLessThanOrEqual(8);
  });
});

describe('activations', () => {
  const activate = (changed: Env, productKey: string, deviceSN: string, address: string) =>
    ask(
      changed,
      '/api/v1/devices/activate',
      { 'CF-Connecting-IP': address },
      { method: 'POST', body: JSON.stringify({ productKey, deviceSN }) },
    );
  async function createProduct(): Promise<string> {
    const { token } = await createUser();
    const productKey = `shielded-${crypto.randomUUID()}`;
    await call('POST', '/products', { token, body: { productKey, name: 'Shielded' } });
    return productKey;
  }

  it('of new serial numbers are limited by product, those of known ones are not', async () => {
    const [productKey, otherKey] = [await createProduct(), await createProduct()];
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
    const productKey = await createProduct();
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
