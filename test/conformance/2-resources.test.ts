// Contract section 2: what the resources look like. That every member has its type is held against the reference with
// every answer; here is what a schema cannot say.
import { expect, it } from 'vitest';
import { addProduct, newProductKey } from '../../rig/clients/accounts.ts';
import { activate, ask, bearer, connect, signUp } from '../../rig/clients/conformance-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const iso = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$/;

it('2.1 the envelope is code 200, message success and the data', async () => {
  const answer = await ask('GET', '/users/me', { headers: bearer(owner.token) });
  expect(answer).toMatchObject({ status: 200, code: 200, message: 'success', data: { userId: owner.user.userId } });
});

it('2.2 a user has an integer id, the username and the email', () => {
  const { userId, username, email } = owner.user;
  expect(Number.isInteger(userId)).toBe(true);
  expect([username, email]).toEqual([owner.email, owner.email]);
});

it('2.3 an API key has an id ak_, a value sk_ and the description it was given', async () => {
  const key = await dataOf(owner.api.users['api-keys'].$post({ json: { description: 'A machine' } }));
  expect(key).toEqual({
    keyId: expect.stringMatching(/^ak_\w+$/) as string,
    apiKey: expect.stringMatching(/^sk_\w+$/) as string,
    description: 'A machine',
  });
});

it('2.4 a product keeps every field it was given', async () => {
  const product = {
    productKey: newProductKey(),
    name: 'Servo switch',
    description: 'Presses a wall switch',
    category: 'switch',
    controlMode: 'dimmer' as const,
    uiTemplate: 'three_position',
    iconName: 'toggle_on',
    iconColor: '#2196F3',
    manufacturer: 'Latchwork',
    model: 'LS-1',
    status: 1 as const,
  };
  const created = await dataOf(owner.api.products.$post({ json: product }));
  const read = await dataOf(owner.api.products[':productKey'].$get({ param: product }));
  expect(read).toMatchObject({ ...product, productId: created.productId });
  const { list } = await dataOf(owner.api.products.$get({ query: {} }));
  expect(list).toContainEqual(read);
});

it('2.5 a device has what it told at activation, its status as text and code, and its product within', async () => {
  const productKey = await addProduct(owner, { controlMode: 'pulse', model: 'WK-2' });
  const body = { productKey, deviceSN: 'SN-25', firmwareVersion: '1.4.2', chipModel: 'ESP32-C3' };
  const { deviceId } = await dataOf(connect().devices.activate.$post({ json: body }));
  const device = await dataOf(owner.api.devices[':deviceId'].$get({ param: { deviceId } }));
  expect(device).toMatchObject({
    deviceId: expect.stringMatching(/^dev_[0-9a-z]{8}$/) as string,
    deviceSN: 'SN-25',
    productKey,
    projectId: expect.stringMatching(/^prj_/) as string,
    firmwareVersion: '1.4.2',
    chipModel: 'ESP32-C3',
    status: 'offline',
    statusCode: 2,
    statusText: 'Offline',
    lastOnlineAt: null,
    activatedAt: expect.stringMatching(iso) as string,
    createdAt: expect.stringMatching(iso) as string,
    product: { productKey, name: 'Servo switch', controlMode: 'pulse', model: 'WK-2' },
  });
  const { list } = await dataOf(owner.api.devices.$get({ query: { size: '1' } }));
  expect(list).toEqual([device]);
});

it('2.6 the status view says before the first report that nothing is known', async () => {
  const { deviceId } = await activate(await addProduct(owner));
  const status = await dataOf(owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));
  expect(status).toEqual({
    deviceId,
    deviceName: 'Servo switch 0001',
    online: false,
    position: null,
    status: 'offline',
    lastOnlineAt: null,
  });
});

it('2.7 the activation result has the forms that devices rebuild after a reboot, and nothing else', async () => {
  const productKey = await addProduct(owner);
  const { deviceId, deviceSecret, mqtt, topics, ...others } = await activate(productKey);
  expect(others).toEqual({});
  expect(deviceSecret).toMatch(/^sk_/);
  const name = `${productKey}&${deviceId}`;
  expect(mqtt).toMatchObject({ server: '127.0.0.1', username: name, clientId: name, keepAlive: 60, portTLS: 8883 });
  expect(mqtt.password).toMatch(/^tk_/);
  expect(topics).toEqual({
    propertyPost: `/sys/${productKey}/${deviceId}/thing/event/property/post`,
    propertySet: `/sys/${productKey}/${deviceId}/thing/service/property/set`,
    status: `/sys/${productKey}/${deviceId}/status`,
  });
});

it('2.8 every list is list, total, page and size', async () => {
  const user = await signUp();
  const empty = { list: [], total: 0, page: 1, size: 20 };
  expect(await dataOf(user.api.products.$get({ query: {} }))).toEqual(empty);
  expect(await dataOf(user.api.devices.$get({ query: {} }))).toEqual(empty);
  expect(await dataOf(user.api.users['api-keys'].$get({ query: {} }))).toEqual(empty);
});
