// Contract section 3: status codes of devices, how a device gets from one to another, and the states of provisioning
// (whose data are section 4.4's).
import { describe, expect, it, vi } from 'vitest';
import { activate, addProduct, newDevice, service, signUp } from '../support/conformance-client.ts';
import { RealClient } from '../support/real-broker-stack.ts';

const owner = await signUp();

describe('the status of a device', () => {
  it('is 2 after activation, 1 while connected, 2 again afterwards, and lists filter by code and by text', async () => {
    const productKey = await addProduct(owner);
    const activation = await activate(productKey);
    const found = async (status: number | string) =>
      (await owner.api('GET /devices', { query: { productKey, status } })).list.map(({ status: text }) => text);
    expect([await found(2), await found('offline')]).toEqual([['offline'], ['offline']]);
    const client = await RealClient.ofDevice(service.mqttUrl, activation, 4);
    await vi.waitFor(async () => expect(await found(1)).toEqual(['online']), { timeout: 10_000 });
    expect([await found('online'), await found(2), await found(0), await found(3)]).toEqual([['online'], [], [], []]);
    await client.client.endAsync();
    await vi.waitFor(async () => expect(await found(2)).toEqual(['offline']), { timeout: 20_000 });
    expect(await found(1)).toEqual([]);
  });

  it('is shown as text beside its code and a wording for people', async () => {
    const { deviceId } = await newDevice(owner);
    const device = await owner.api('GET /devices/{deviceId}', { params: { deviceId } });
    expect(device).toMatchObject({ status: 'offline', statusCode: 2, statusText: 'Offline' });
  });

  it('has four codes and no fifth', async () => {
    for (const status of ['0', '1', '2', '3', 'inactive', 'online', 'offline', 'disabled']) {
      expect(await owner.api('GET /devices', { query: { status } }), status).toMatchObject({ page: 1 });
    }
    for (const status of ['4', '-1', '1.0', 'Online', 'broken', '']) {
      await expect(owner.api('GET /devices', { query: { status } }), status).rejects.toMatchObject({ code: 400 });
    }
  });
});
