// The product catalogue over HTTP: contract 4.2 and what the decisions add to it.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';

type Product = { productId: number; productKey: string; name: string; category: string } & Record<string, unknown>;
type Page = { list: Product[]; total: number; page: number; size: number };

const full = {
  name: 'Servo switch',
  description: 'Presses a wall switch\nin three positions',
  category: 'switch',
  controlMode: 'toggle',
  uiTemplate: 'three_position',
  iconName: 'toggle_on',
  iconColor: '#2196f3',
  manufacturer: 'Latchwork',
  model: 'LS-1',
  status: 0,
  offlineGraceSeconds: 30,
};
const defaults = {
  description: '',
  category: 'general',
  controlMode: 'generic',
  uiTemplate: 'generic',
  iconName: 'devices',
  iconColor: '#607D8B',
  manufacturer: '',
  model: '',
  status: 1,
  offlineGraceSeconds: 5,
};
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;

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

function change(productKey: string, body: unknown, owner = user): Promise<Answer<Product>> {
  return call('PUT', `/products/${productKey}`, { token: owner.token, body });
}

function remove(productKey: string, owner = user): Promise<Answer<{ productKey: string }>> {
  return call('DELETE', `/products/${productKey}`, { token: owner.token });
}

async function list(query: string, owner = user): Promise<Answer<Page>> {
  return call('GET', `/products${query}`, { token: owner.token });
}

/** A device record as an activation makes it, without the device. */
async function addDevice(productId: number, owner: TestUser): Promise<void> {
  await env.DB.prepare(
    `insert into devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
      connection_status, created_at) values (?, ?, 'SN-1', ?, 'prj_1', 'Device', '', '', 2, 1)`,
  )
    .bind(`dev_${productId}`, productId, owner.userId)
    .run();
}

describe('POST /products', () => {
  it('needs no more than key and name, and ignores members it does not know', async () => {
    const productKey = newKey();
    const extra = { productId: 999, ownerId: 1, deletedAt: 5, __proto__: { status: 0 }, color: 'red' };
    expect((await create({ productKey, name: 'Plain', ...extra })).status).toBe(200);
    const { data } = await read(productKey);
    expect(data).toMatchObject({ productKey, name: 'Plain', ...defaults });
    expect(Object.keys(data)).not.toContain('color');
  });

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

  it.each([
    ['no key', { productKey: undefined }],
    ['an empty key', { productKey: '' }],
    ['a key of 65 characters', { productKey: 'k'.repeat(65) }],
    ['a key with an ampersand', { productKey: 'a&b' }],
    ['a key with a slash', { productKey: 'a/b' }],
    ['a key with a line break at its end', { productKey: 'key\n' }],
    ['a key beyond ASCII', { productKey: 'schlüssel' }],
    ['no name', { name: undefined }],
    ['an empty name', { name: '' }],
    ['a name of 101 characters', { name: 'n'.repeat(101) }],
    ['a name that is a number', { name: 5 }],
    ['a null name', { name: null }],
    ['a name with a NUL', { name: 'a\0b' }],
    ['a name that is half a character', { name: 'a\ud800' }],
    ['a description of 1001 characters', { description: 'd'.repeat(1001) }],
    ['an empty category', { category: '' }],
    ['a category of 101 characters', { category: 'c'.repeat(101) }],
    ['an unknown control mode', { controlMode: 'magic' }],
    ['a control mode in another case', { controlMode: 'Toggle' }],
    ['a template of 65 characters', { uiTemplate: 'u'.repeat(65) }],
    ['an icon name of 65 characters', { iconName: 'i'.repeat(65) }],
    ['a colour by name', { iconColor: 'red' }],
    ['a short colour', { iconColor: '#fff' }],
    ['a colour with alpha', { iconColor: '#11223344' }],
    ['a manufacturer of 101 characters', { manufacturer: 'm'.repeat(101) }],
    ['a model of 101 characters', { model: 'm'.repeat(101) }],
    ['an unknown status', { status: 2 }],
    ['a status as text', { status: '1' }],
    ['a boolean status', { status: true }],
    ['a grace of 61 seconds', { offlineGraceSeconds: 61 }],
    ['a negative grace', { offlineGraceSeconds: -1 }],
    ['a broken grace', { offlineGraceSeconds: 1.5 }],
  ])('refuses %s, and PUT refuses it too', async (_, wrong) => {
    const productKey = newKey();
    const answer = await create({ productKey, ...full, ...wrong });
    expect(answer).toMatchObject({ status: 400, code: 400, data: null });
    expect(answer.message).toMatch(/^invalid_request: [a-zA-Z]+: /);
    if (Object.values(wrong)[0] === undefined) return;
    await create({ productKey, ...full });
    expect((await change(productKey, wrong)).status).toBe(400);
    expect((await read(productKey)).data).toMatchObject(full);
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

describe('GET /products', () => {
  let owner: TestUser;
  let keys: string[];
  beforeAll(async () => {
    owner = await createUser();
    keys = [];
    for (let index = 0; index < 5; index++) {
      keys.unshift(newKey());
      await create({ productKey: keys[0], name: `No. ${index}`, category: index % 2 ? 'odd' : 'even' }, owner);
    }
    // Made in the same millisecond: the id decides.
    await env.DB.prepare('update products set created_at = 1000 where owner_id = ?').bind(owner.userId).run();
  });

  it('lists your products whole, newest first', async () => {
    const { data } = await list('', owner);
    expect(data).toMatchObject({ total: 5, page: 1, size: 20 });
    expect(data.list.map(({ productKey }) => productKey)).toEqual(keys);
    expect(data.list[0]).toEqual((await read(keys[0]!, owner)).data);
  });

  it('pages through them, and past the end', async () => {
    expect((await list('?page=2&size=2', owner)).data).toMatchObject({ total: 5, page: 2, size: 2 });
    const pages = await Promise.all([1, 2, 3, 4].map((page) => list(`?page=${page}&size=2`, owner)));
    expect(pages.map(({ data }) => data.list.map(({ productKey }) => productKey))).toEqual([
      keys.slice(0, 2),
      keys.slice(2, 4),
      keys.slice(4),
      [],
    ]);
    expect((await list('?page=999999999', owner)).data).toMatchObject({ list: [], total: 5, page: 999_999_999 });
  });

  it('filters by category, exactly, and takes an empty filter for none', async () => {
    expect((await list('?category=odd', owner)).data).toMatchObject({ total: 2, list: [{ category: 'odd' }, {}] });
    expect((await list('?category=od', owner)).data).toMatchObject({ total: 0, list: [] });
    expect((await list("?category=' or 1=1 --", owner)).data.total).toBe(0);
    expect((await list('?category=', owner)).data.total).toBe(5);
  });

  it.each([
    'page=0',
    'page=-1',
    'page=1.5',
    'page=x',
    'page=',
    'page=1e2',
    'size=0',
    'size=-5',
    'size=ten',
    'size=',
    'page=1&page=2',
  ])('refuses ?%s', async (query) => {
    const answer = await list(`?${query}`, owner);
    expect(answer).toMatchObject({ status: 400, data: null });
    expect(answer.message).toMatch(/^invalid_request: (page|size): /);
  });

  it('shows nothing of others', async () => {
    expect((await list('', await createUser())).data).toEqual({ list: [], total: 0, page: 1, size: 20 });
  });
});

describe('PUT /products/:productKey', () => {
  let productKey: string;
  beforeAll(async () => {
    productKey = newKey();
    await create({ productKey, ...full });
  });

  it('changes what is given, keeps the rest and answers the whole product', async () => {
    const before = (await read(productKey)).data;
    const { status, data } = await change(productKey, { productKey, model: '', status: 1, color: 'red' });
    expect(status).toBe(200);
    expect(data).toEqual({ ...before, model: '', status: 1, updatedAt: data['updatedAt'] });
    expect(data).toEqual((await read(productKey)).data);
  });

  it('changes nothing for an empty object', async () => {
    const before = (await read(productKey)).data;
    expect((await change(productKey, {})).data).toEqual({ ...before, updatedAt: instant });
  });

  it('refuses another key than that of the path, and a body that is none', async () => {
    expect(await change(productKey, { productKey: 'another' })).toMatchObject({
      status: 400,
      message: 'invalid_request: productKey: cannot be changed',
    });
    for (const body of ['', '[]', '"text"', 'null', '{', '{"name":"x"']) {
      expect((await change(productKey, body)).status).toBe(body === '' ? 200 : 400);
    }
  });
});

describe('DELETE /products/:productKey', () => {
  it('answers the key; afterwards the product is not found', async () => {
    const productKey = newKey();
    await create({ productKey, ...full });
    expect(await remove(productKey)).toMatchObject({ status: 200, data: { productKey } });
    for (const answer of [await read(productKey), await change(productKey, {}), await remove(productKey)]) {
      expect(answer).toMatchObject({ status: 404, message: 'not_found' });
    }
    expect((await list('?size=100')).data.list.map((product) => product.productKey)).not.toContain(productKey);
  });

  it('keeps the key for the user who made it: nobody else can take it up again', async () => {
    const productKey = newKey();
    await create({ productKey, ...full });
    await remove(productKey);
    expect(await create({ productKey, name: 'x' }, stranger)).toMatchObject({ message: 'product_key_exists' });
    expect((await create({ productKey, name: 'Reborn' })).status).toBe(200);
    expect((await read(productKey)).data).toMatchObject({ name: 'Reborn', ...defaults });
  });

  it('refuses while the product has devices, whoever owns them', async () => {
    const productKey = newKey();
    const { productId } = (await create({ productKey, ...full })).data;
    await addDevice(productId, stranger);
    expect(await remove(productKey)).toMatchObject({ status: 400, message: 'product_has_devices', data: null });
    expect((await read(productKey)).status).toBe(200);
    await env.DB.prepare('delete from devices where product_id = ?').bind(productId).run();
    expect((await remove(productKey)).status).toBe(200);
  });
});

describe('a product', () => {
  it('is refused to a stranger and not found where there is none, by each route alike', async () => {
    const productKey = newKey();
    await create({ productKey, ...full });
    for (const [key, owner, status, message] of [
      [productKey, stranger, 403, 'forbidden'],
      ['unknown', user, 404, 'not_found'],
      ['a%2Fb', user, 404, 'not_found'],
      ['%00', user, 404, 'not_found'],
      ['x'.repeat(500), user, 404, 'not_found'],
    ] as const) {
      for (const answer of [await read(key, owner), await change(key, {}, owner), await remove(key, owner)]) {
        expect(answer).toMatchObject({ status, message, data: null });
      }
    }
    expect((await read(productKey)).data).toMatchObject(full);
  });

  it('is refused to a caller without credentials, by each route alike', async () => {
    const attempts = await Promise.all([
      call('POST', '/products', { body: { productKey: newKey(), name: 'x' } }),
      call('GET', '/products'),
      call('GET', '/products/unknown'),
      call('PUT', '/products/unknown', { body: {} }),
      call('DELETE', '/products/unknown'),
    ]);
    for (const answer of attempts) expect(answer).toMatchObject({ status: 401, message: 'unauthorized', data: null });
  });

  it('is not made for a user who is no more', async () => {
    const ghost = await createUser();
    await env.DB.prepare('delete from users where id = ?').bind(ghost.userId).run();
    expect(await create({ productKey: newKey(), name: 'x' }, ghost)).toMatchObject({ status: 401 });
    expect((await call('GET', '/users/me', { token: ghost.token })).status).toBe(401);
    expect((await call('POST', '/users/api-keys', { token: ghost.token, body: {} })).status).toBe(401);
  });
});
