// Contract section 8: the limits it names and those that were decided.
import { describe, expect, it } from 'vitest';
import { addProduct } from '../../rig/clients/accounts.ts';
import { activate, ask, bearer, connect, service, signUp } from '../../rig/clients/conformance-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const headers = bearer(owner.token);
const lists = ['/products', '/devices', '/users/api-keys'];

describe('pages', () => {
  it('begin with 1 and have 20 entries unless asked otherwise', async () => {
    const productKey = await addProduct(owner);
    await Promise.all(Array.from({ length: 21 }, (_, index) => activate(productKey, `SN-${index}`)));
    const page = await dataOf(owner.api.devices.$get({ query: { productKey } }));
    expect([page.list.length, page.total, page.page, page.size]).toEqual([20, 21, 1, 20]);
    expect((await dataOf(owner.api.devices.$get({ query: { productKey, page: '2' } }))).list).toHaveLength(1);
  });

  it('are cut to 100 entries, and say so', async () => {
    for (const path of lists) {
      for (const size of [100, 101, 1_000_000]) {
        expect(await ask('GET', `${path}?size=${size}`, { headers }), path).toMatchObject({ data: { size: 100 } });
      }
      expect(await ask('GET', `${path}?size=1`, { headers }), path).toMatchObject({ data: { size: 1 } });
    }
  });

  it('refuse anything else that is no page', async () => {
    for (const path of lists) {
      for (const query of ['page=0', 'page=-1', 'page=x', 'page=1.5', 'page=', 'size=0', 'size=-5', 'size=all']) {
        expect(await ask('GET', `${path}?${query}`, { headers }), `${path}?${query}`).toMatchObject({ code: 400 });
      }
    }
  });

  it('ignore query members that nobody knows', async () => {
    for (const path of lists) {
      const answer = await ask('GET', `${path}?_=1772366400000&sort=name&page=1`, { headers });
      expect(answer, path).toMatchObject({ code: 200, data: { page: 1, size: 20 } });
    }
  });
});

it('activation answers within 1 KiB of a device parser, for the longest product key', async () => {
  const productKey = `${'k'.repeat(28)}${crypto.randomUUID()}`;
  await dataOf(owner.api.products.$post({ json: { productKey, name: 'Longest' } }));
  const response = await fetch(`${service.url}/api/v1/devices/activate`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ productKey, deviceSN: 'S'.repeat(64) }),
  });
  const text = await response.text();
  const answer = JSON.parse(text) as { data: { mqtt: Record<string, string> } };
  expect(parserBytes(answer)).toBeLessThanOrEqual(1024);
  expect(text).toBe(JSON.stringify(answer));
  const { clientId, username, password } = answer.data.mqtt;
  expect(`${clientId}${username}${password}`.length).toBeLessThanOrEqual(235);
});

/** field note 1: 16 bytes a member, each distinct string once with a terminator. */
function parserBytes(value: unknown, strings = new Set<string>()): number {
  const members = (part: unknown): number => {
    if (typeof part === 'string') strings.add(part);
    if (typeof part !== 'object' || part === null) return 0;
    const entries = Object.entries(part);
    for (const [name] of entries) strings.add(name);
    return entries.reduce((sum, [, member]) => sum + 16 + members(member), 0);
  };
  return members(value) + [...strings].reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0);
}

it('request bodies may have 64 KiB and not a byte more, announced or not', async () => {
  const bodyOf = (length: number) => {
    const body = JSON.stringify({ username: 'nobody', password: 'wrong horse', padding: '' });
    return body.replace('""', `"${'x'.repeat(length - body.length)}"`);
  };
  expect(bodyOf(64 * 1024)).toHaveLength(64 * 1024);
  const fits = await ask('POST', '/users/login', { body: bodyOf(64 * 1024) });
  expect(fits.message).toBe('invalid_password');
  const tooLarge = await ask('POST', '/users/login', { body: bodyOf(64 * 1024 + 1) });
  expect(tooLarge).toMatchObject({ status: 400, message: expect.stringMatching(/^invalid_request/) as string });
  const stream = new Blob([bodyOf(64 * 1024 + 1)]).stream();
  const response = await fetch(`${service.url}/api/v1/users/login`, { method: 'POST', body: stream, duplex: 'half' });
  expect([response.status, await response.json()]).toMatchObject([400, { code: 400, data: null }]);
});

it('passwords and names have 8 to 128 and 3 to 254 characters', async () => {
  const register = async (password: string, username?: string) =>
    (
      await ask('POST', '/users/register', {
        body: { email: `${crypto.randomUUID()}@example.test`, password, username },
      })
    ).message;
  expect(await register('1234567')).toMatch(/^weak_password/);
  expect(await register('12345678')).toMatch(/^weak_password/);
  expect(await register('8c horse')).toBe('success');
  expect(await register('x'.repeat(128))).toBe('success');
  expect(await register('x'.repeat(129))).toMatch(/^invalid_request/);
  expect(await register('correct horse', 'ab')).toMatch(/^invalid_request/);
  expect(await register('correct horse', 'u'.repeat(255))).toMatch(/^invalid_request/);
  const username = crypto.randomUUID().repeat(8).slice(0, 254);
  expect(await register('correct horse', username)).toBe('success');
  const { user } = await dataOf(connect().users.login.$post({ json: { username, password: 'correct horse' } }));
  expect(user.username).toBe(username);
});
