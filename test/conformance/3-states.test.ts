// Contract section 3: status codes of devices, how a device gets from one to another, and the states of provisioning
// (whose data are section 4.4's).
import { describe, expect, it, vi } from 'vitest';
import { addProduct } from '../../rig/clients/accounts.ts';
import { activate, connectDevice, mqttUrlOf, newDevice, signUp } from '../../rig/clients/conformance-client.ts';
import { refusalOf } from '../../rig/clients/mqtt-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();

describe('the status of a device', () => {
  it('is 2 after activation, 1 while connected, 2 again afterwards, and lists filter by code and by text', async () => {
    const productKey = await addProduct(owner);
    const activation = await activate(productKey);
    const list = async (status: string) =>
      (await dataOf(owner.api.devices.$get({ query: { productKey, status } }))).list;
    const found = async (status: string) => (await list(status)).map(({ status: text }) => text);
    expect([await found('2'), await found('offline')]).toEqual([['offline'], ['offline']]);
    const client = await connectDevice(activation);
    await vi.waitFor(async () => expect(await found('1')).toEqual(['online']));
    expect([await found('online'), await found('2'), await found('0'), await found('3')]).toEqual([
      ['online'],
      [],
      [],
      [],
    ]);
    await client.client.endAsync();
    await vi.waitFor(async () => expect(await found('2')).toEqual(['offline']));
    expect(await found('1')).toEqual([]);
    expect(await list('2')).toMatchObject([{ lastOnlineAt: expect.stringMatching(/Z$/) as string }]);
  });

  it('is 3 while disabled, which covers the connection and ends with it', async () => {
    const activation = await newDevice(owner);
    const params = { deviceId: activation.deviceId };
    const client = await connectDevice(activation);
    expect(
      await dataOf(owner.api.devices[':deviceId'].$patch({ param: params, json: { disabled: true } })),
    ).toMatchObject({
      status: 'disabled',
      statusCode: 3,
    });
    await client.untilClosed();
    const { username, password, clientId } = activation.mqtt;
    expect(await refusalOf(mqttUrlOf(activation), { username, password, clientId })).toMatch(/^code \d/);
    const { list } = await dataOf(owner.api.devices.$get({ query: { status: '3' } }));
    expect(list.map(({ deviceId }) => deviceId)).toContain(activation.deviceId);
    await dataOf(owner.api.devices[':deviceId'].$patch({ param: params, json: { disabled: false } }));
    await connectDevice(activation);
    const status = () => dataOf(owner.api.devices[':deviceId'].status.$get({ param: params }));
    await vi.waitFor(async () => expect(await status()).toMatchObject({ status: 'online', online: true }));
  });

  it('has four codes and no fifth', async () => {
    for (const status of ['0', '1', '2', '3', 'inactive', 'online', 'offline', 'disabled']) {
      expect(await dataOf(owner.api.devices.$get({ query: { status } })), status).toMatchObject({ page: 1 });
    }
    for (const status of ['4', '-1', '1.0', 'Online', 'broken', '']) {
      await expect(dataOf(owner.api.devices.$get({ query: { status } })), status).rejects.toMatchObject({ code: 400 });
    }
  });
});
