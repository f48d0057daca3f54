// The product catalogue over HTTP: contract 4.2 and what the decisions add to it.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';

type Product = { productId: number; productKey: string; name: string; category: string } & Record<string, unknown>;

let user: TestUser;
let stranger: TestUser;
beforeAll(async () => {
  [user, stranger] = await Promise.all([createUser(), createUser()]);
});

let keyCount = 0;
const newKey = () => `product_${++keyCount}`;

function create(body: object, owner = user): Promise<Answer<Product>> {
  return call('POST', '/products', { token: owner.token, body });
}

function read(productKey: string, owner = user): Promise<Answer<Product>> {
  return call('GET', `/products/${productKey}`, { token: owner.token });
}

describe('POST /products', () => {
  it('takes every key and text the limits allow', async () => {
    const longest = {
      productKey: `${'Aa0_-'.repeat(12)}abcd`,
      name: '𝔘'.repeat(100),
      description: '\u00e9'.repeat(1000),
      category: 'c'.repeat(100),
      uiTemplate: 'u'.repeat(64),
      iconName: 'i'.repeat(64),
      iconColor: '#ABCDEF',
      manufacturer: 'm'.repeat(100),
      model: '<b>"\'; drop table products --',
      offlineGraceSeconds: 0,
    };
    expect((await create(longest)).status).toBe(200);
    expect((await read(longest.productKey)).data).toMatchObject(longest);
  });

  it('refuses a key that is taken, by whomever, and lets one of several simultaneous creations win', async () => {
    const productKey = newKey();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => create({ productKey, name: 'x' }, index % 2 ? user : stranger)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const { status, message } of answers.filter((answer) => answer.status !== 200)) {
      expect({ status, message }).toEqual({ status: 400, message: 'product_key_exists' });
    }
  });
});

describe('a product', () => {
  it('is not made for a user who is no more', async () => {
    const ghost = await createUser();
    await env.DB.prepare('delete from refresh_tokens where user_id = ?').bind(ghost.userId).run();
    await env.DB.prepare('delete from users where id = ?').bind(ghost.userId).run();
    expect(await create({ productKey: newKey(), name: 'x' }, ghost)).toMatchObject({ status: 401 });
    expect((await call('GET', '/users/me', { token: ghost.token })).status).toBe(401);
    expect((await call('POST', '/users/api-keys', { token: ghost.token, body: {} })).status).toBe(401);
  });
});
