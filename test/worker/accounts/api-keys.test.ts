// API keys: managed by their user in person, accepted on products, devices and the account.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { call, createUser, makeDevice, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { createKey, type Key } from '../rig/authorization-callers.ts';

type ListedKey = { keyId: string; description: string; createdAt: string; lastUsedAt: string | null };
type Page<T> = { list: T[]; total: number; page: number; size: number };

let user: TestUser;
beforeAll(async () => {
  user = await createUser();
});

async function listKeys(owner = user): Promise<Page<ListedKey>> {
  return (await call<Page<ListedKey>>('GET', '/users/api-keys', { token: owner.token })).data;
}

describe('POST /users/api-keys', () => {
  it('holds a key to the scopes and the product that were asked for', async () => {
    const productKey = await makeProduct(user);
    const asked = { scopes: ['control', 'read', 'control'], productKey };
    const made = await call<Key>('POST', '/users/api-keys', { token: user.token, body: asked });
    const held = { scopes: ['read', 'control'], productKey };
    expect(made).toMatchObject({ code: 200, data: held });
    const { list } = await listKeys();
    expect(list.find(({ keyId }) => keyId === made.data.keyId)).toMatchObject(held);
  });

  it.each([
    ['no scope', { scopes: [] }, 400],
    ['an unknown scope', { scopes: ['all'] }, 400],
    ['scopes as text', { scopes: 'read' }, 400],
    ['a product that is none', { productKey: 'no-such-product' }, 404],
    ['a description that is no text', { description: 5 }, 400],
    ['a description that is too long', { description: 'x'.repeat(201) }, 400],
    ['malformed JSON', '{', 400],
    ['a body that is no object', [], 400],
  ])('makes none for %s', async (_, body, code) => {
    expect(await call('POST', '/users/api-keys', { token: user.token, body })).toMatchObject({ code });
  });

  // No answer shows what is stored.
  it('stores the value as a digest only', async () => {
    const { apiKey } = await createKey(user);
    const { results } = await env.DB.prepare('select * from api_keys').all();
    expect(JSON.stringify(results)).not.toContain(apiKey.slice(3));
  });

  it('gives a user twenty keys and no more, also if they are made at once', async () => {
    const { token } = await createUser();
    const makings = Array.from({ length: 25 }, () => call('POST', '/users/api-keys', { token, body: {} }));
    const statuses = (await Promise.all(makings)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  });
});

it('GET /users/api-keys lists your keys newest first, in pages', async () => {
  const owner = await createUser();
  for (const description of ['first', 'second', 'third']) await createKey(owner, { description });
  const list = ['third', 'second', 'first'].map((description) => ({ description }));
  expect(await listKeys(owner)).toMatchObject({ list, total: 3, page: 1, size: 20 });
  const answer = await call<Page<ListedKey>>('GET', '/users/api-keys?page=2&size=1', { token: owner.token });
  expect(answer.data).toMatchObject({ list: [{ description: 'second' }], total: 3, page: 2, size: 1 });
});

describe('DELETE /users/api-keys/:keyId', () => {
  it('lets nobody in by an invitation that an isolate made just after the deletion', async () => {
    const guest = await createUser();
    const { deviceId } = await makeDevice(user);
    const key = await createKey(user);
    const body = { email: guest.email, role: 'operator' };
    // The key is still remembered here.
    await call('GET', '/products', { key });
    await env.DB.prepare('delete from api_keys where key_id = ?').bind(key.keyId).run();
    const invited = await call<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, { key, body });
    expect(invited).toMatchObject({ status: 200 });
    const path = `/invitations/${invited.data.invitationId}/accept`;
    expect(await call('POST', path, { token: guest.token })).toMatchObject({ status: 404 });
  });

  it('ends a key that another isolate deleted within a second', async () => {
    const key = await createKey(user);
    expect((await call('GET', '/products', { key })).status).toBe(200);
    // A deletion over HTTP would clear the cache of this isolate, too.
    await env.DB.prepare('delete from api_keys where key_id = ?').bind(key.keyId).run();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 1_000 });
    expect((await call('GET', '/products', { key })).status).toBe(401);
  });
});

it('an API key says when it was last used, to the minute', async () => {
  const owner = await createUser();
  const key = await createKey(owner);
  const beforeMs = Date.now();
  await call('GET', '/products', { key });
  const lastUsedAt = await vi.waitFor(async () => {
    const [listed] = (await listKeys(owner)).list;
    expect(listed!.lastUsedAt).not.toBeNull();
    return listed!.lastUsedAt!;
  });
  expect(Date.parse(lastUsedAt)).toBeGreaterThanOrEqual(beforeMs);
  await call('GET', '/products', { key });
  expect((await listKeys(owner)).list[0]!.lastUsedAt).toBe(lastUsedAt);
});
