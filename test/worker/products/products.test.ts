// Creating products (contract 4.2), and serial numbers that are registered before their devices activate (decision:
// activation).
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { callLimited } from '../rig/limited.ts';
import { tokenOf } from '../rig/ownership.ts';

type Registered = { registered: number; list: { line: number; deviceSN: string; deviceId: string; result: string }[] };

let maker: TestUser;
beforeAll(async () => {
  maker = await createUser();
});

const createProduct = (more: object = {}) => makeProduct(maker, more);
const as = () => ({ token: maker.token });
const register = (productKey: string, body: unknown, headers: Record<string, string> = {}) =>
  call<Registered>('POST', `/products/${productKey}/serials`, { ...as(), body, headers });
const activate = (productKey: string, deviceSN: string) =>
  call<{ deviceId: string }>('POST', '/devices/activate', { body: { productKey, deviceSN } });

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
    expect((await call('POST', '/products', { ...as(), body: longest })).status).toBe(200);
    expect((await call<object>('GET', `/products/${longest.productKey}`, as())).data).toMatchObject(longest);
  });

  it('lets one of several simultaneous creations win', async () => {
    const [body, other] = [{ productKey: 'wanted-by-many', name: 'x' }, await createUser()];
    const create = (_: unknown, index: number) => call('POST', '/products', { ...(index % 2 ? as() : other), body });
    const answers = await Promise.all(Array.from({ length: 10 }, create));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expect(answer).toMatchObject({ status: 400, message: 'product_key_exists' });
    }
  });
});

describe('registering serials', () => {
  it('answers a result for each, and makes devices that are not activated', async () => {
    const productKey = await createProduct();
    const known = (await activate(productKey, 'OLD')).data.deviceId;
    const serials = ['SN-1', 'SN-2', 'SN-1', '', 'x'.repeat(65), 7, 'OLD'];
    const { status, data } = await register(productKey, { serials });
    expect(status).toBe(200);
    expect(data.registered).toBe(2);
    expect(data.list.map(({ line, result }) => `${line} ${result}`)).toEqual([
      '1 registered',
      '2 registered',
      '3 repeated',
      '4 invalid',
      '5 invalid',
      '6 invalid',
      '7 exists',
    ]);
    expect(data.list[6]!.deviceId).toBe(known);
    const { deviceId } = data.list[0]!;
    expect(await call('GET', `/devices/${deviceId}`, as())).toMatchObject({
      data: { status: 'inactive', statusCode: 0, activatedAt: null, deviceSN: 'SN-1' },
    });
    expect(await call('GET', `/devices?productKey=${productKey}&status=0`, as())).toMatchObject({ data: { total: 2 } });
    const figures = await call('GET', `/products/${productKey}/figures`, as());
    expect(figures.data).toEqual({ devices: 3, online: 0, claimed: 0, activatedToday: 1 });
  });

  it('takes CSV with and without a heading', async () => {
    const productKey = await createProduct();
    const csv = { 'Content-Type': 'text/csv; charset=utf-8' };
    const first = await register(productKey, 'deviceSN,batch\r\n"SN-1",7\r\nSN-2;7\r\n\r\n', csv);
    expect(first.data.list.map(({ deviceSN, result }) => [deviceSN, result])).toEqual([
      ['SN-1', 'registered'],
      ['SN-2', 'registered'],
    ]);
    expect((await register(productKey, 'SN-3\nSN-1', csv)).data.list).toMatchObject([
      { deviceSN: 'SN-3', result: 'registered' },
      { deviceSN: 'SN-1', result: 'exists' },
    ]);
  });

  it('takes a thousand in one request, and no more', async () => {
    const productKey = await createProduct();
    const serials = Array.from({ length: 1_001 }, (_, index) => `SN-${index}`);
    expect((await register(productKey, { serials })).message).toBe(
      'invalid_request: serials: must have at most 1000 items',
    );
    expect((await register(productKey, { serials: serials.slice(1) })).data.registered).toBe(1_000);
    const listed = await call<{ list: { deviceSN: string }[] }>('GET', `/products/${productKey}/serials?size=2`, as());
    expect(listed.data).toMatchObject({
      total: 1_000,
      size: 2,
      list: [{ deviceSN: 'SN-1000' }, { deviceSN: 'SN-999' }],
    });
  });

  it('stops at the limit of devices of a product', async () => {
    const productKey = await createProduct();
    const body = { serials: ['SN-1', 'SN-2', 'SN-3'] };
    const { token } = maker;
    const { data } = await callLimited<Registered>('devicesPerProduct=2', 'POST', `/products/${productKey}/serials`, {
      token,
      body,
    });
    expect(data.list.map(({ result }) => result)).toEqual(['registered', 'registered', 'too_many_devices']);
  });

  it('refuses what is no list', async () => {
    const productKey = await createProduct();
    for (const body of [{}, { serials: 'SN-1' }, 'serials'])
      expect((await register(productKey, body)).status).toBe(400);
  });
});

describe('a registered serial', () => {
  it('activates where no other one may, as the device that was registered', async () => {
    const productKey = await createProduct({ activation: 'registered' });
    const { deviceId } = (await register(productKey, { serials: ['SN-1'] })).data.list[0]!;
    expect(await activate(productKey, 'SN-2')).toMatchObject({ status: 403, message: 'activation_not_allowed' });
    expect(await activate(productKey, 'SN-1')).toMatchObject({ status: 200, data: { deviceId } });
    expect(await call('GET', `/devices/${deviceId}`, as())).toMatchObject({ data: { status: 'offline' } });
    expect(await call('GET', `/devices/${deviceId}/status`, as())).toMatchObject({ data: { status: 'offline' } });
    const figures = await call('GET', `/products/${productKey}/figures`, as());
    expect(figures.data).toMatchObject({ devices: 1, activatedToday: 1 });
  });

  it('does not activate where the product is closed, no more than a new one; an active one does again', async () => {
    const productKey = await createProduct();
    await activate(productKey, 'SN-0');
    await register(productKey, { serials: ['SN-1'] });
    await call('PUT', `/products/${productKey}`, { ...as(), body: { activation: 'closed' } });
    const refused = { status: 403, message: 'activation_not_allowed', data: null };
    for (const deviceSN of ['SN-1', 'SN-2']) expect(await activate(productKey, deviceSN)).toMatchObject(refused);
    const body = { productKey, deviceSN: 'SN-2' };
    const claim = await call('POST', `/t/${await tokenOf(maker)}/api/v1/devices/activate`, { body });
    expect(claim, 'with a claim token').toMatchObject({ status: 403 });
    expect(await activate(productKey, 'SN-0')).toMatchObject({ status: 200 });
  });

  it('answers as a device that is not activated', async () => {
    const productKey = await createProduct();
    const { deviceId } = (await register(productKey, { serials: ['SN-1'] })).data.list[0]!;
    const read = (path: string) => call('GET', `/devices/${deviceId}${path}`, as());
    expect(await read('/status')).toMatchObject({
      status: 200,
      data: {
        deviceId,
        deviceName: 'Switch -1',
        online: false,
        position: null,
        status: 'inactive',
        lastOnlineAt: null,
      },
    });
    for (const path of ['/events', '/properties', '/commands']) {
      expect(await read(path), path).toMatchObject({ status: 200, data: { list: [] } });
    }
    const refused = { status: 400, message: 'device_not_activated', data: null };
    const control = { ...as(), body: { action: 'toggle' } };
    expect(await call('POST', `/devices/${deviceId}/control`, control)).toMatchObject(refused);
    expect(await call('PATCH', `/devices/${deviceId}`, { ...as(), body: { name: 'x' } })).toMatchObject(refused);
    for (const path of ['/credentials', '/release', '/pairing-window']) {
      expect(await call('POST', `/devices/${deviceId}${path}`, as()), path).toMatchObject(refused);
    }
    const { token } = await createUser();
    expect(await call('POST', `/devices/${deviceId}/control`, { token, body: { action: 'toggle' } })).toMatchObject({
      status: 403,
    });
    expect(await call('GET', `/devices/${deviceId}/status`, { token })).toMatchObject({ status: 403 });
  });

  it('is removed until it has activated', async () => {
    const productKey = await createProduct();
    await register(productKey, { serials: ['SN-1', 'SN-2'] });
    await activate(productKey, 'SN-2');
    const remove = (deviceSN: string) => call('DELETE', `/products/${productKey}/serials/${deviceSN}`, as());
    expect(await remove('SN-1')).toMatchObject({ status: 200, data: { deviceSN: 'SN-1' } });
    expect(await remove('SN-1')).toMatchObject({ status: 404 });
    expect(await remove('SN-2')).toMatchObject({ status: 400 });
    expect(await call('GET', `/products/${productKey}/serials`, as())).toMatchObject({
      data: { total: 1, list: [{ deviceSN: 'SN-2', isClaimed: false, isDisabled: false }] },
    });
  });

  it('is activated or removed, not both, at the same moment', async () => {
    for (let round = 0; round < 6; round++) {
      const productKey = await createProduct({ activation: 'registered' });
      await register(productKey, { serials: ['SN-1'] });
      const [activated, removed] = await Promise.all([
        activate(productKey, 'SN-1'),
        call('DELETE', `/products/${productKey}/serials/SN-1`, as()),
      ]);
      expect([activated.status === 200, removed.status === 200]).toContain(false);
      if (activated.status === 200) {
        expect((await call('GET', `/devices/${activated.data.deviceId}`, as())).status).toBe(200);
      }
    }
  });
});
