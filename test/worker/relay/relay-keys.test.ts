// API keys at the relay: what a key sees, and when its sockets end.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { RelayGateway } from '../../../src/objects/relay/relay-gateway.ts';
import { RelayKeys } from '../../../src/objects/relay/authentication.ts';
import { createKey, type Key } from '../rig/authorization-callers.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import {
  authed,
  comeOnline,
  forbidden,
  openRelay,
  ping,
  pong,
  report,
  shard,
  subscribed,
} from '../rig/clients/relay.ts';
import type { TestSocket } from '../rig/clients/socket.ts';
import type { TestDevice } from '../rig/provision.ts';
import { everything, pushOf, reportOf } from '../rig/fleet.ts';

const refused = (message: string) => ({ action: 'auth', code: 401, message });

let owner: TestUser;
let lamp: TestDevice;
let lock: TestDevice;

beforeAll(async () => {
  owner = await createUser();
  [lamp, lock] = [await activate(owner), await activate(owner)];
});

async function activate(user: TestUser) {
  const device = await makeDevice(user);
  await comeOnline(device);
  return device;
}

const authOf = ({ keyId, apiKey }: Key) => ({ action: 'auth' as const, keyId, apiKey });
const deleteKey = ({ keyId }: Key) => call('DELETE', `/users/api-keys/${keyId}`, { token: owner.token });
const subscribe = (topic: string, snapshot = false) => ({ action: 'subscribe', topic, ...(snapshot && { snapshot }) });
const topicsOf = (device: TestDevice) => `/sys/${device.productKey}/${device.deviceId}/#`;
async function signIn(key: Key): Promise<TestSocket> {
  const socket = await openRelay();
  expect(await socket.ask(authOf(key))).toEqual(authed);
  return socket;
}

describe('an API key at the relay', () => {
  let key: Key;

  beforeEach(async () => {
    key = await createKey(owner);
  });

  it('is taken by its names, or by the former ones either way round, and follows what its user may follow', async () => {
    const { keyId, apiKey } = key;
    for (const former of [
      { apiKey, apiSecret: keyId },
      { apiKey: keyId, apiSecret: apiKey },
    ])
      expect(await (await openRelay()).ask({ action: 'auth', ...former })).toEqual(authed);
    const socket = await signIn(key);
    expect(await socket.ask(subscribe(topicsOf(lamp)))).toEqual(subscribed(topicsOf(lamp)));
    expect(await socket.ask(subscribe(everything))).toEqual(subscribed(everything));
    const foreign = topicsOf(await activate(await createUser()));
    expect(await socket.ask(subscribe(foreign))).toEqual(forbidden(foreign));
    await report(reportOf(lamp, 'up'), reportOf(lock, 'up'));
    const pushes = [await socket.next(), await socket.next()];
    expect(pushes).toEqual(expect.arrayContaining([pushOf(lamp, 'up'), pushOf(lock, 'up')]));
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('shows in the list when it was last used', async () => {
    await signIn(key);
    const { data } = await call<{ list: { keyId: string; lastUsedAt: string | null }[] }>('GET', '/users/api-keys', {
      token: owner.token,
    });
    expect(data.list.find(({ keyId }) => keyId === key.keyId)?.lastUsedAt).toEqual(expect.any(String));
    await deleteKey(key);
  });

  it('for one product sees nothing of another, in no kind of subscription', async () => {
    const narrow = await createKey(owner, { productKey: lamp.productKey });
    const socket = await signIn(narrow);
    const [own, other] = [`/sys/${lamp.productKey}/+/#`, `/sys/${lock.productKey}/+/#`];
    expect(await socket.ask(subscribe(topicsOf(lock)))).toEqual(forbidden(topicsOf(lock)));
    expect(await socket.ask(subscribe(other))).toEqual(forbidden(other));
    expect(await socket.ask(subscribe(topicsOf(lamp)))).toEqual(subscribed(topicsOf(lamp)));
    expect(await socket.ask(subscribe(own))).toEqual(subscribed(own));
    socket.send(subscribe(everything, true));
    const state = [await socket.next(), await socket.next(), await socket.next()];
    expect(state.at(-1)).toEqual(subscribed(everything));
    for (const push of state.slice(0, 2)) {
      expect((push as { topic: string }).topic).toMatch(new RegExp(`^/sys/${lamp.productKey}/${lamp.deviceId}/`));
    }
    await evictDurableObject(shard());
    await report(reportOf(lock, 'down'), reportOf(lamp, 'down'));
    expect(await socket.next()).toEqual(pushOf(lamp, 'down'));
    expect(await socket.ask(ping)).toEqual(pong);
    await deleteKey(narrow);
  });

  it('that is wrong is refused, and the third one ends the socket', async () => {
    const other = await createKey(owner);
    const socket = await openRelay();
    expect(await socket.ask({ action: 'auth', apiKey: key.keyId })).toMatchObject({ code: 400 });
    expect(await socket.ask({ ...authOf(key), apiKey: other.apiKey })).toEqual(refused('unauthorized'));
    expect(await socket.ask({ ...authOf(key), apiKey: 'ak_' })).toEqual(refused('unauthorized'));
    const unknown = { ...authOf(key), keyId: `ak_${'0'.repeat(20)}` };
    expect(await socket.ask(unknown)).toEqual(refused('unauthorized'));
    expect(await socket.closed).toMatchObject({ code: 1008, reason: 'too many failed authentications' });
    await deleteKey(other);
  });

  it('that is wrong counts as a wrong credential of its address', async () => {
    const counted: string[] = [];
    const KEY_FAILURE_LIMIT: RateLimit = {
      limit: ({ key: address }) => Promise.resolve({ success: counted.push(address) < 3 }),
    };
    const keys = new RelayKeys({ ...env, RATE_LIMITS: 'production', KEY_FAILURE_LIMIT } as unknown as Env);
    const [right, wrong] = [authOf(key), { ...authOf(key), apiKey: `sk_${'0'.repeat(40)}` }];
    const check = (pair: typeof right, address: string) => keys.check(pair, address);
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(await check(wrong, '203.0.113.99')).toMatchObject({ refusal: { problem: 'wrong' } });
    }
    expect(counted).toEqual(Array(3).fill('203.0.113.99'));
    // From then on the address is not believed, whatever it sends.
    expect(await check(right, '203.0.113.99')).toMatchObject({ ok: false, refusal: { kind: 'rate_limited' } });
    expect(await check(right, '203.0.113.98')).toMatchObject({ ok: true });
  });

  it('is answered 503 and when to try again while the database is away', async () => {
    const socket = await openRelay();
    const away = vi.spyOn(env.DB, 'withSession').mockImplementation(() => {
      throw new Error('D1_ERROR: database is locked: SQLITE_BUSY');
    });
    const unavailable = { action: 'auth', code: 503, message: 'unavailable', retryAfterSeconds: 5 };
    expect(await socket.ask(authOf(key))).toEqual(unavailable);
    away.mockRestore();
    expect(await socket.ask(authOf(key))).toEqual(authed);
  });

  it('is looked up beside so many others and no more', async () => {
    const keys = new RelayKeys(env);
    const checks = Array.from({ length: 101 }, (_, index) => keys.check(authOf(key), `192.0.2.${index}`));
    const outcomes = await Promise.all(checks);
    const refusal = { kind: 'rate_limited', limit: 'api_key_lookups' };
    expect(outcomes.pop()).toMatchObject({ ok: false, refusal });
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
    expect(await keys.check(authOf(key), '192.0.2.3')).toMatchObject({ ok: true });
  });

  it('inherits nothing from a token on the same socket, nor the other way round', async () => {
    const narrow = await createKey(owner, { productKey: lamp.productKey });
    const socket = await openRelay();
    expect(await socket.ask({ action: 'auth', token: owner.token })).toEqual(authed);
    expect(await socket.ask(subscribe(topicsOf(lock)))).toEqual(subscribed(topicsOf(lock)));
    expect(await socket.ask(authOf(narrow))).toEqual(authed);
    await report(reportOf(lock, 'middle'));
    expect(await socket.ask(ping)).toEqual(pong);
    await deleteKey(narrow);
  });
});

describe('the deletion of an API key', () => {
  /** Nobody tells a shard. */
  const forget = ({ keyId }: Key) => env.DB.prepare('delete from api_keys where key_id = ?').bind(keyId).run();

  it('ends its sockets at once, and no others', async () => {
    const [key, other] = [await createKey(owner), await createKey(owner)];
    const [socket, second, neighbour] = [await signIn(key), await signIn(key), await signIn(other)];
    expect(await socket.ask(subscribe(everything))).toEqual(subscribed(everything));
    await evictDurableObject(shard());
    expect(await deleteKey(key)).toMatchObject({ code: 200 });
    for (const ended of [socket, second]) {
      expect(await ended.closed).toMatchObject({ code: 1008, reason: 'API key deleted' });
    }
    expect(await neighbour.ask(ping)).toEqual(pong);
    expect(await (await openRelay()).ask(authOf(key))).toEqual(refused('unauthorized'));
    await deleteKey(other);
  });

  it('meets a socket that is signing in', async () => {
    const key = await createKey(owner);
    const socket = await openRelay();
    const digest = crypto.subtle.digest.bind(crypto.subtle);
    let isDeleted: Promise<unknown> | undefined;
    vi.spyOn(crypto.subtle, 'digest').mockImplementation(async (algorithm, data) => {
      // The key was read and is compared now.
      isDeleted ??= runInDurableObject(shard(), (gateway: RelayGateway) => gateway.endKeys([key.keyId]));
      await isDeleted;
      return digest(algorithm, data);
    });
    expect(await socket.ask(authOf(key))).toEqual(refused('unauthorized'));
    vi.restoreAllMocks();
    await deleteKey(key);
  });

  it('is found within a minute by a shard that could not be told, like the end of the account', async () => {
    const [key, kept] = [await createKey(owner), await createKey(owner)];
    const [socket, neighbour] = [await signIn(key), await signIn(kept)];
    await forget(key);
    await runDurableObjectAlarm(shard());
    expect(await socket.closed).toMatchObject({ code: 1008, reason: 'API key deleted' });
    expect(await neighbour.ask(ping)).toEqual(pong);
    await env.DB.prepare('update users set disabled_at = 1 where id = ?').bind(owner.userId).run();
    await runDurableObjectAlarm(shard());
    expect(await neighbour.closed).toMatchObject({ code: 1008, reason: 'API key deleted' });
    await env.DB.prepare('update users set disabled_at = null where id = ?').bind(owner.userId).run();
  });
});
