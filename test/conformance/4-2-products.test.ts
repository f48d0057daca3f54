// Contract section 4.2: the product catalogue, with a bearer token and with an API key.
import { describe, expect, it } from 'vitest';
import { newProductKey } from '../../rig/clients/accounts.ts';
import { connect, signUp } from '../../rig/clients/conformance-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const key = await dataOf(owner.api.users['api-keys'].$post({ json: {} }));
const schemes = [
  { scheme: 'a bearer token', api: owner.api },
  { scheme: 'an API key', api: connect(key) },
];

describe.each(schemes)('products with $scheme', ({ api }) => {
  it('are created from a key and a name alone, the rest by default', async () => {
    const productKey = newProductKey();
    const created = await dataOf(api.products.$post({ json: { productKey, name: 'Plain' } }));
    expect(created).toEqual({ productId: expect.any(Number) as number, productKey, name: 'Plain' });
    expect(await dataOf(api.products[':productKey'].$get({ param: { productKey } }))).toMatchObject({
      description: '',
      category: 'general',
      controlMode: 'generic',
      uiTemplate: 'generic',
      iconName: 'devices',
      iconColor: '#607D8B',
      manufacturer: '',
      model: '',
      status: 1,
    });
  });

  it('are listed by category and page, newest first', async () => {
    const category = newProductKey();
    const keys = [newProductKey(), newProductKey(), newProductKey()];
    for (const productKey of keys) await dataOf(api.products.$post({ json: { productKey, name: 'Listed', category } }));
    const page = await dataOf(api.products.$get({ query: { category, page: '1', size: '2' } }));
    expect(page).toMatchObject({ total: 3, page: 1, size: 2 });
    expect(page.list.map(({ productKey }) => productKey)).toEqual([keys[2], keys[1]]);
    const last = await dataOf(api.products.$get({ query: { category, page: '2', size: '2' } }));
    expect(last.list.map(({ productKey }) => productKey)).toEqual([keys[0]]);
    expect(await dataOf(api.products.$get({ query: { category, page: '9' } }))).toMatchObject({ list: [], total: 3 });
  });

  it('keep what PUT does not name, and PUT answers the whole product', async () => {
    const productKey = newProductKey();
    await dataOf(api.products.$post({ json: { productKey, name: 'Before', category: 'switch', model: 'LS-1' } }));
    const changed = await dataOf(
      api.products[':productKey'].$put({ param: { productKey }, json: { name: 'After', controlMode: 'pulse' } }),
    );
    expect(changed).toMatchObject({ name: 'After', controlMode: 'pulse', category: 'switch', model: 'LS-1' });
    expect(await dataOf(api.products[':productKey'].$get({ param: { productKey } }))).toEqual(changed);
    const whole = { productKey, name: 'Whole', category: 'switch', model: 'LS-2', iconColor: '#ffffff' };
    expect(await dataOf(api.products[':productKey'].$put({ param: { productKey }, json: whole }))).toMatchObject(whole);
  });

  it('are deleted, and not while they have devices', async () => {
    const productKey = newProductKey();
    await dataOf(api.products.$post({ json: { productKey, name: 'Deleted' } }));
    const { deviceId } = await dataOf(connect().devices.activate.$post({ json: { productKey, deviceSN: 'SN' } }));
    const params = { productKey };
    await expect(dataOf(api.products[':productKey'].$delete({ param: params }))).rejects.toMatchObject({
      code: 400,
      reason: 'product_has_devices',
    });
    await dataOf(api.devices[':deviceId'].$delete({ param: { deviceId } }));
    expect(await dataOf(api.products[':productKey'].$delete({ param: params }))).toEqual({ productKey });
    await expect(dataOf(api.products[':productKey'].$get({ param: params }))).rejects.toMatchObject({ code: 404 });
  });

  it('refuse every field that is not what it should be', async () => {
    const wrong = [
      { productKey: 'with space' },
      { productKey: 'x'.repeat(65) },
      { productKey: '' },
      { name: '' },
      { controlMode: 'fly' },
      { iconColor: 'red' },
      { iconColor: '#12345' },
      { status: 2 },
      { category: 7 },
    ];
    for (const field of wrong) {
      const body = { productKey: newProductKey(), name: 'Wrong', ...field } as { productKey: string; name: string };
      await expect(dataOf(api.products.$post({ json: body })), JSON.stringify(field)).rejects.toMatchObject({
        code: 400,
        reason: 'invalid_request',
      });
    }
    const other = { param: { productKey: newProductKey() }, json: {} };
    await expect(dataOf(api.products[':productKey'].$put(other))).rejects.toMatchObject({
      code: 404,
      reason: 'not_found',
    });
  });

  it('do not change their key', async () => {
    const productKey = newProductKey();
    await dataOf(api.products.$post({ json: { productKey, name: 'Kept' } }));
    const change = { param: { productKey }, json: { productKey: newProductKey() } };
    await expect(dataOf(api.products[':productKey'].$put(change))).rejects.toMatchObject({ code: 400 });
  });
});

it('a product key belongs to one user, also after its product was deleted', async () => {
  const productKey = newProductKey();
  await dataOf(owner.api.products.$post({ json: { productKey, name: 'First' } }));
  const stranger = await signUp();
  const take = (session: typeof stranger) =>
    dataOf(session.api.products.$post({ json: { productKey, name: 'Second' } }));
  await expect(take(stranger)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
  await expect(take(owner)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
  await dataOf(owner.api.products[':productKey'].$delete({ param: { productKey } }));
  await expect(take(stranger)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
  expect(await take(owner)).toMatchObject({ productKey });
});
