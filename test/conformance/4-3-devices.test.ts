// Contract section 4.3: activation, devices, status and control. Control in both its forms, everything that asks who
// calls with both authentication schemes, commands as the device really receives them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addProduct, newProductKey, type Activation } from '../../rig/clients/accounts.ts';
import {
  activate,
  ask,
  bearer,
  connect,
  connectDevice,
  keyPair,
  mqttUrlOf,
  newDevice,
  service,
  signUp,
} from '../../rig/clients/conformance-client.ts';
import { MqttTestClient, refusalOf } from '../../rig/clients/mqtt-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const key = await dataOf(owner.api.users['api-keys'].$post({ json: {} }));
const schemes = [
  { scheme: 'a bearer token', api: owner.api, headers: bearer(owner.token) },
  { scheme: 'an API key', api: connect(key), headers: keyPair(key) },
];

describe('POST /devices/activate', () => {
  it('needs a product key and a serial number, no more, and ignores what it does not know', async () => {
    const productKey = await addProduct(owner);
    for (const more of [{}, { firmwareVersion: '1.0', chipModel: 'ESP32' }, { firmwareVersion: '2.0', mac: 'aa:bb' }]) {
      const answer = await ask('POST', '/devices/activate', { body: { productKey, deviceSN: 'SN-1', ...more } });
      expect(answer).toMatchObject({ code: 200, data: { mqtt: { server: '127.0.0.1', port: service.mqttPort } } });
    }
    const { list } = await dataOf(owner.api.devices.$get({ query: { productKey } }));
    expect(list).toMatchObject([{ firmwareVersion: '2.0', chipModel: expect.any(String) as string }]);
  });

  it('answers an unknown product key as rule 3 says', async () => {
    const answer = await ask('POST', '/devices/activate', { body: { productKey: newProductKey(), deviceSN: 'SN-1' } });
    expect(answer).toMatchObject({ status: 400, code: 400, message: 'invalid_product_key', data: null });
  });

  it('answers a disabled product so, and only activation minds', async () => {
    const productKey = await addProduct(owner);
    const { deviceId } = await activate(productKey);
    await dataOf(owner.api.products[':productKey'].$put({ param: { productKey }, json: { status: 0 } }));
    const answer = await ask('POST', '/devices/activate', { body: { productKey, deviceSN: 'SN-2' } });
    expect(answer).toMatchObject({ status: 403, code: 403, message: 'product_disabled' });
    expect(await dataOf(owner.api.devices[':deviceId'].$get({ param: { deviceId } }))).toMatchObject({ deviceId });
  });

  it('refuses what is no serial number', async () => {
    const productKey = await addProduct(owner);
    for (const deviceSN of ['', 'x'.repeat(65), 'tab\t', 'ümlaut', 7, null]) {
      const answer = await ask('POST', '/devices/activate', { body: { productKey, deviceSN } });
      expect(answer, String(deviceSN)).toMatchObject({ code: 400 });
    }
  });

  it('gives the same device for the same serial, and another under another product', async () => {
    const productKeys = [await addProduct(owner), await addProduct(owner)] as const;
    const first = await activate(productKeys[0], 'SN-7');
    const again = await activate(productKeys[0], 'SN-7');
    const other = await activate(productKeys[1], 'SN-7');
    expect(again.deviceId).toBe(first.deviceId);
    expect(again.mqtt.password).not.toBe(first.mqtt.password);
    expect(again.deviceSecret).not.toBe(first.deviceSecret);
    expect(other.deviceId).not.toBe(first.deviceId);
  });

  it('keeps older credentials working, so that a lost answer locks nobody out', async () => {
    const productKey = await addProduct(owner);
    for (const activation of [await activate(productKey), await activate(productKey)]) {
      const client = await connectDevice(activation);
      await client.leave();
    }
  });

  it('makes one device of fifty simultaneous activations', async () => {
    const productKey = await addProduct(owner);
    const activations = await Promise.all(Array.from({ length: 50 }, () => activate(productKey, 'SN-RACE')));
    expect(new Set(activations.map(({ deviceId }) => deviceId)).size).toBe(1);
    expect((await dataOf(owner.api.devices.$get({ query: { productKey } }))).total).toBe(1);
  });
});

describe.each(schemes)('devices with $scheme', ({ api, headers }) => {
  it('are listed by product and status, page by page, newest first', async () => {
    const productKey = await addProduct(owner);
    const ids: string[] = [];
    for (const serial of ['A', 'B', 'C']) ids.unshift((await activate(productKey, serial)).deviceId);
    const page = await dataOf(api.devices.$get({ query: { productKey, size: '2' } }));
    expect(page).toMatchObject({ total: 3, page: 1, size: 2 });
    const rest = await dataOf(api.devices.$get({ query: { productKey, size: '2', page: '2' } }));
    expect([...page.list, ...rest.list].map(({ deviceId }) => deviceId)).toEqual(ids);
    expect(await dataOf(api.devices.$get({ query: { productKey, status: '1' } }))).toMatchObject({
      list: [],
      total: 0,
    });
    expect(await dataOf(api.devices.$get({ query: { productKey, status: '2', page: '1' } }))).toMatchObject({
      total: 3,
    });
  });

  it('are read one by one, and those that do not exist are not found', async () => {
    const { deviceId } = await newDevice(owner);
    expect(await dataOf(api.devices[':deviceId'].$get({ param: { deviceId } }))).toMatchObject({ deviceId });
    for (const unknown of ['dev_00000000', 'dev_', 'x', encodeURIComponent('../etc')]) {
      for (const path of [`/devices/${unknown}`, `/devices/${unknown}/status`]) {
        expect(await ask('GET', path, { headers }), path).toMatchObject({ code: 404, message: 'device_not_found' });
      }
    }
  });

  it('are deleted with their credentials, and come back as new ones', async () => {
    const productKey = await addProduct(owner);
    const { deviceId, mqtt } = await activate(productKey);
    const params = { deviceId };
    expect(await dataOf(api.devices[':deviceId'].$delete({ param: params }))).toEqual({ deviceId });
    const device = api.devices[':deviceId'];
    const notFound = { code: 404, reason: 'device_not_found' };
    await expect(dataOf(device.$get({ param: params }))).rejects.toMatchObject(notFound);
    await expect(dataOf(device.status.$get({ param: params }))).rejects.toMatchObject(notFound);
    expect((await dataOf(api.devices.$get({ query: { productKey } }))).total).toBe(0);
    const { username, password, clientId } = mqtt;
    expect(await refusalOf(mqttUrlOf({ deviceId }), { username, password, clientId })).not.toBe('accepted');
    expect((await activate(productKey)).deviceId).not.toBe(deviceId);
  });
});

describe.each(schemes)('POST /devices/:deviceId/control with $scheme', ({ api, headers }) => {
  let device: Activation;
  let client: MqttTestClient;

  beforeAll(async () => {
    device = await newDevice(owner);
    client = await MqttTestClient.ofDevice(mqttUrlOf(device), device);
    await client.client.subscribeAsync(device.topics.propertySet, { qos: 1 });
  });

  afterAll(async () => {
    await client.leave();
  });

  const accepted: [string, object][] = [
    ['new form, toggle', { action: 'toggle' }],
    ['new form, toggle up', { action: 'toggle', position: 'up' }],
    ['new form, toggle middle', { action: 'toggle', position: 'middle' }],
    ['new form, toggle down', { action: 'toggle', position: 'down' }],
    ['new form, pulse', { action: 'pulse' }],
    ['new form, shortest pulse', { action: 'pulse', duration: 1 }],
    ['new form, longest pulse', { action: 'pulse', duration: 3_600_000 }],
    ['new form, trigger', { action: 'trigger' }],
    ['legacy form, on', { switch: true }],
    ['legacy form, off', { switch: false }],
    ['legacy form, angle 0', { angle: 0 }],
    ['legacy form, angle 180', { angle: 180 }],
    ['legacy form, both', { switch: true, angle: 90 }],
  ];
  it.each(accepted)('sends %s to the device, exactly', async (_, body) => {
    client.heard.length = 0;
    const { deviceId } = device;
    const answer = await ask('POST', `/devices/${deviceId}/control`, { headers, body });
    expect(answer).toMatchObject({ status: 200, code: 200, data: { message: 'command_sent' } });
    const command = (await client.untilHeard(device.topics.propertySet)) as Record<string, unknown>;
    expect(command).toEqual({
      method: 'thing.service.property.set',
      id: expect.stringMatching(/^[\x21-\x7e]{1,20}$/) as string,
      params: body,
      time: expect.any(Number) as number,
    });
    expect(command['id']).not.toMatch(/["\\]/);
    expect(String(command['time'])).toMatch(/^\d{13}$/);
  });

  const refused: [string, object, string][] = [
    ['an empty body', {}, 'no_control_params'],
    ['unknown members alone', { speed: 3 }, 'no_control_params'],
    ['an array', [], 'no_control_params'],
    ['an unknown action', { action: 'fly' }, 'invalid_control_params'],
    ['an unknown position', { action: 'toggle', position: 'left' }, 'invalid_control_params'],
    ['a position without an action', { position: 'up' }, 'invalid_control_params'],
    ['a duration without an action', { duration: 5 }, 'invalid_control_params'],
    ['a trigger with a position', { action: 'trigger', position: 'up' }, 'invalid_control_params'],
    ['a trigger with a duration', { action: 'trigger', duration: 5 }, 'invalid_control_params'],
    ['a toggle with a duration', { action: 'toggle', duration: 5 }, 'invalid_control_params'],
    ['a pulse with a position', { action: 'pulse', position: 'up' }, 'invalid_control_params'],
    ['both forms at once', { action: 'toggle', switch: true }, 'invalid_control_params'],
    ['a null among the members', { action: 'toggle', position: null }, 'invalid_control_params'],
    ['an angle below 0', { angle: -1 }, 'invalid_control_params'],
    ['an angle above 180', { angle: 181 }, 'invalid_control_params'],
    ['half an angle', { angle: 0.5 }, 'invalid_control_params'],
    ['an angle as text', { angle: '90' }, 'invalid_control_params'],
    ['a switch as a number', { switch: 1 }, 'invalid_control_params'],
    ['no duration at all', { action: 'pulse', duration: 0 }, 'invalid_control_params'],
    ['a duration as text', { action: 'pulse', duration: '500' }, 'invalid_control_params'],
    ['half a millisecond', { action: 'pulse', duration: 1.5 }, 'invalid_control_params'],
    ['no action', { action: null }, 'invalid_control_params'],
    ['too long a duration', { action: 'pulse', duration: 3_600_001 }, 'invalid_control_params'],
  ];
  it.each(refused)('refuses %s', async (_, body, message) => {
    const answer = await ask('POST', `/devices/${device.deviceId}/control`, { headers, body });
    expect(answer).toMatchObject({ status: 400, code: 400, message: expect.stringMatching(`^${message}`) as string });
  });

  it('refuses a product that is read only', async () => {
    const { deviceId } = await activate(await addProduct(owner, { controlMode: 'readonly' }));
    const command = { param: { deviceId }, json: { action: 'trigger' }, query: {}, header: {} };
    await expect(dataOf(api.devices[':deviceId'].control.$post(command))).rejects.toMatchObject({
      code: 403,
      reason: 'forbidden',
    });
  });
});
