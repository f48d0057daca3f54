// Contract section 4.2: the product catalogue, with a bearer token and with an API key.
import { describe, expect, it } from 'vitest';
import { newProductKey } from '../rig/accounts.ts';
import { connect, signUp } from '../rig/conformance-client.ts';

const owner = await signUp();
const key = await owner.api('POST /users/api-keys');
const schemes = [
  { scheme: 'a bearer token', api: owner.api },
  { scheme: 'an API key', api: connect(key) },
];

describe.each(schemes)('products with $scheme', ({ api }) => {
  it('are created from a key and a name alone, the rest by default', async () => {
    const productKey = newProductKey();
    const created = await api('POST /products', { body: { productKey, name: 'Plain' } });
    expect(created).toEqual({ productId: expect.any(Number) as number, productKey, name: 'Plain' });
    expect(await api('GET /products/{productKey}', { params: { productKey } })).toMatchObject({
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
    for (const productKey of keys) await api('POST /products', { body: { productKey, name: 'Listed', category } });
    const page = await api('GET /products', { query: { category, page: 1, size: 2 } });
    expect(page).toMatchObject({ total: 3, page: 1, size: 2 });
    expect(page.list.map(({ productKey }) => productKey)).toEqual([keys[2], keys[1]]);
    const last = await api('GET /products', { query: { category, page: 2, size: 2 } });
    expect(last.list.map(({ productKey }) => productKey)).toEqual([keys[0]]);
    expect(await api('GET /products', { query: { category, page: 9 } })).toMatchObject({ list: [], total: 3 });
  });

  it('keep what PUT does not name, and PUT answers the whole product', async () => {
    const productKey = newProductKey();
    await api('POST /products', { body: { productKey, name: 'Before', category: 'switch', model: 'LS-1' } });
    const changed = await api('PUT /products/{productKey}', {
      params: { productKey },
      body: { name: 'After', controlMode: 'pulse' },
    });
    expect(changed).toMatchObject({ name: 'After', controlMode: 'pulse', category: 'switch', model: 'LS-1' });
    expect(await api('GET /products/{productKey}', { params: { productKey } })).toEqual(changed);
    const whole = { productKey, name: 'Whole', category: 'switch', model: 'LS-2', iconColor: '#ffffff' };
    expect(await api('PUT /products/{productKey}', { params: { productKey }, body: whole })).toMatchObject(whole);
  });

  it('are deleted, and not while they have devices', async () => {
    const productKey = newProductKey();
    await api('POST /products', { body: { productKey, name: 'Deleted' } });
    const { deviceId } = await connect()('POST /devices/activate', { body: { productKey, deviceSN: 'SN' } });
    const params = { productKey };
    await expect(api('DELETE /products/{productKey}', { params })).rejects.toMatchObject({
      code: 400,
      reason: 'product_has_devices',
    });
    await api('DELETE /devices/{deviceId}', { params: { deviceId } });
    expect(await api('DELETE /products/{productKey}', { params })).toEqual({ productKey });
    await expect(api('GET /products/{productKey}', { params })).rejects.toMatchObject({ code: 404 });
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
      await expect(api('POST /products', { body }), JSON.stringify(field)).rejects.toMatchObject({
        code: 400,
        reason: 'invalid_request',
      });
    }
    const other = { params: { productKey: newProductKey() }, body: {} };
    await expect(api('PUT /products/{productKey}', other)).rejects.toMatchObject({ code: 404, reason: 'not_found' });
  });

  it('do not change their key', async () => {
    const productKey = newProductKey();
    await api('POST /products', { body: { productKey, name: 'Kept' } });
    const change = { params: { productKey }, body: { productKey: newProductKey() } };
    await expect(api('PUT /products/{productKey}', change)).rejects.toMatchObject({ code: 400 });
  });
});

describe('a product key', () => {
  it('belongs to one user, also after its product was deleted', async () => {
    const productKey = newProductKey();
    await owner.api('POST /products', { body: { productKey, name: 'First' } });
    const stranger = await signUp();
    const take = (session: typeof stranger) => session.api('POST /products', { body: { productKey, name: 'Second' } });
    await expect(take(stranger)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
    await expect(take(owner)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
    await owner.api('DELETE /products/{productKey}', { params: { productKey } });
    await expect(take(stranger)).rejects.toMatchObject({ code: 400, reason: 'product_key_exists' });
    expect(await take(owner)).toMatchObject({ productKey });
  });

  it("opens nobody else's product", async () => {
    const productKey = newProductKey();
    await owner.api('POST /products', { body: { productKey, name: 'Mine' } });
    const stranger = await signUp();
    const params = { productKey };
    await expect(stranger.api('GET /products/{productKey}', { params })).rejects.toMatchObject({ code: 403 });
    await expect(stranger.api('PUT /products/{productKey}', { params, body: {} })).rejects.toMatchObject({ code: 403 });
    await expect(stranger.api('DELETE /products/{productKey}', { params })).rejects.toMatchObject({ code: 403 });
    expect((await stranger.api('GET /products')).total).toBe(0);
  });
});
