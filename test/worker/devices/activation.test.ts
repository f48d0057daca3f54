// Activation over HTTP (contract 4.3, decision: activation): what a device gets, and that races leave one truth.
import { beforeAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { parseMessagingName } from '../../../src/domain/topics.ts';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';
import { sessionOf } from '../rig/provision.ts';
import { wireErrorOf } from '../../../src/domain/refusal.ts';

type Activation = {
  deviceId: string;
  deviceSecret: string;
  mqtt: Record<'server' | 'username' | 'password' | 'clientId', string> &
    Record<'port' | 'portTLS' | 'keepAlive', number>;
  topics: Record<'propertyPost' | 'propertySet' | 'status', string>;
};

let owner: TestUser;
let count = 0;
beforeAll(async () => {
  owner = await createUser();
});

async function createProduct(): Promise<string> {
  const productKey = `product-${++count}`;
  const { code } = await call('POST', '/products', {
    token: owner.token,
    body: { productKey, name: 'Switch' },
  });
  expect(code).toBe(200);
  return productKey;
}

function activate(body: unknown): Promise<Answer<Activation>> {
  return call('POST', '/devices/activate', { body });
}

async function logIn({ username, password }: Activation['mqtt']): Promise<string> {
  const { productKey, deviceId } = parseMessagingName(username)!;
  const passwordDigest = await digestOf(password);
  const outcome = await sessionOf(deviceId).authenticate({ productKey, passwordDigest });
  return outcome.ok ? 'accepted' : wireErrorOf(outcome.refusal).message;
}

describe('activation races', () => {
  it('with a deletion never leave credentials without a record', async () => {
    const productKey = await createProduct();
    for (let round = 0; round < 8; round++) {
      const first = await activate({ productKey, deviceSN: `race-${round}` });
      const [again] = await Promise.all([
        activate({ productKey, deviceSN: `race-${round}` }),
        call('DELETE', `/devices/${first.data.deviceId}`, { token: owner.token }),
      ]);
      expect(again.status).toBe(200);
      const record = await call('GET', `/devices/${again.data.deviceId}`, { token: owner.token });
      expect(await logIn(again.data.mqtt)).toBe(record.status === 200 ? 'accepted' : 'device_not_found');
      expect(await logIn(first.data.mqtt)).toBe(
        record.status === 200 && again.data.deviceId === first.data.deviceId ? 'accepted' : 'device_not_found',
      );
    }
  });

  it('finish a deletion that was cut off, and give the serial a new device', async () => {
    const productKey = await createProduct();
    const first = await activate({ productKey, deviceSN: 'SN-1' });
    // The session has ended, the record is still there: what a deletion leaves that dies in between.
    await sessionOf(first.data.deviceId).decide({ kind: 'deleted', actor: null });
    const again = await activate({ productKey, deviceSN: 'SN-1' });
    expect(again.status).toBe(200);
    expect(again.data.deviceId).not.toBe(first.data.deviceId);
    expect(await logIn(again.data.mqtt)).toBe('accepted');
    expect((await call('GET', `/devices/${first.data.deviceId}`, { token: owner.token })).status).toBe(404);
  });

  it('with the deletion of the product never leave a device under a deleted product', async () => {
    for (let round = 0; round < 8; round++) {
      const productKey = await createProduct();
      const [activation, deletion] = await Promise.all([
        activate({ productKey, deviceSN: 'SN-1' }),
        call('DELETE', `/products/${productKey}`, { token: owner.token }),
      ]);
      expect([activation.status, deletion.status].sort()).toEqual([200, 400]);
      if (deletion.status === 200) expect(activation.message).toBe('invalid_product_key');
    }
  });
});
