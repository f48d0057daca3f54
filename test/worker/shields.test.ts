// Levers without sign-in: what a stranger's flood costs the database and the objects, and what it is answered.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { createApp } from '../../src/app.ts';
import { call, createUser } from '../rig/workerd/client.ts';

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
    const { DB, count } = countStatements('select 1');
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
