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

async function createProduct(productKey = `product-${++count}`, more: object = {}): Promise<string> {
  const { code } = await call('POST', '/products', {
    token: owner.token,
    body: { productKey, name: 'Switch', ...more },
  });
  expect(code).toBe(200);
  return productKey;
}

function activate(body: unknown): Promise<Answer<Activation>> {
  return call('POST', '/devices/activate', { body });
}

async function logIn({ username, password }: Activation['mqtt'], nowUsing = password): Promise<string> {
  const { productKey, deviceId } = parseMessagingName(username)!;
  const passwordDigest = await digestOf(nowUsing);
  const outcome = await sessionOf(deviceId).authenticate({ productKey, passwordDigest });
  return outcome.ok ? 'accepted' : wireErrorOf(outcome.refusal).message;
}

/** What a parser with 16 bytes a member and one copy of each distinct string, with terminator, needs (field note 1). */
function parserBytes(json: unknown): number {
  const strings = new Set<string>();
  let members = 0;
  const visit = (value: unknown): void => {
    if (typeof value === 'string') strings.add(value);
    if (typeof value !== 'object' || value === null) return;
    for (const [name, member] of Object.entries(value)) {
      members += 1;
      strings.add(name);
      visit(member);
    }
  };
  visit(json);
  return members * 16 + [...strings].reduce((sum, text) => sum + text.length + 1, 0);
}

describe('POST /devices/activate', () => {
  it('answers exactly the members of contract 2.7, with integers where integers are meant', async () => {
    const productKey = await createProduct();
    const { status, data } = await activate({ productKey, deviceSN: 'SN 1', firmwareVersion: '1.0', chipModel: 'C3' });
    expect(status).toBe(200);
    const { deviceId } = data;
    expect(data).toEqual({
      deviceId: expect.stringMatching(/^dev_[0-9a-hjkmnp-tv-z]{8}$/) as string,
      deviceSecret: expect.stringMatching(/^sk_[A-Za-z0-9]{32}$/) as string,
      mqtt: {
        server: 'broker.test',
        port: 1883,
        portTLS: 8883,
        username: `${productKey}&${deviceId}`,
        password: expect.stringMatching(/^tk_[A-Za-z0-9]{48}$/) as string,
        clientId: `${productKey}&${deviceId}`,
        keepAlive: 60,
      },
      topics: {
        propertyPost: `/sys/${productKey}/${deviceId}/thing/event/property/post`,
        propertySet: `/sys/${productKey}/${deviceId}/thing/service/property/set`,
        status: `/sys/${productKey}/${deviceId}/status`,
      },
    });
  });

  it('fits a 1 KiB parser and a 235-byte login for the longest product key', async () => {
    const productKey = await createProduct('L'.repeat(64));
    const { code, message, data } = await activate({ productKey, deviceSN: 'x'.repeat(64) });
    // A host name of 64 characters, the longest single label and a dot, is beyond what the test broker is called.
    const answer = { code, message, data: { ...data, mqtt: { ...data.mqtt, server: 'h'.repeat(64) } } };
    expect(parserBytes(answer)).toBeLessThanOrEqual(1024);
    const { clientId, username, password } = data.mqtt;
    expect(clientId.length + username.length + password.length).toBeLessThanOrEqual(235);
  });

  it('gives the same device for the same serial, with new secrets and the old password still good', async () => {
    const productKey = await createProduct();
    const first = await activate({ productKey, deviceSN: 'SN-1', firmwareVersion: '1.0' });
    expect(await logIn(first.data.mqtt)).toBe('accepted');
    const second = await activate({ productKey, deviceSN: 'SN-1' });
    expect(second.data.deviceId).toBe(first.data.deviceId);
    expect(second.data.mqtt.password).not.toBe(first.data.mqtt.password);
    expect(second.data.deviceSecret).not.toBe(first.data.deviceSecret);
    expect(await logIn(first.data.mqtt)).toBe('accepted');
    expect(await logIn(second.data.mqtt)).toBe('accepted');
    expect(await logIn(first.data.mqtt), 'within ten minutes').toBe('accepted');
    const { data } = await call('GET', `/devices/${first.data.deviceId}`, { token: owner.token });
    expect(data, 'what is not said again is kept').toMatchObject({ firmwareVersion: '1.0' });
  });

  it('takes the firmware of the last activation', async () => {
    const productKey = await createProduct();
    await activate({ productKey, deviceSN: 'SN-1', firmwareVersion: '1.0', chipModel: 'C3' });
    const { data } = await activate({ productKey, deviceSN: 'SN-1', firmwareVersion: '1.1' });
    const device = await call('GET', `/devices/${data.deviceId}`, { token: owner.token });
    expect(device.data).toMatchObject({ firmwareVersion: '1.1', chipModel: 'C3' });
  });

  it.each([
    ['no product key', { deviceSN: 'SN' }],
    ['no serial', { productKey: 'product-1' }],
    ['an empty serial', { productKey: 'product-1', deviceSN: '' }],
    ['a serial of 65 characters', { productKey: 'product-1', deviceSN: 'x'.repeat(65) }],
    ['a serial with a line break', { productKey: 'product-1', deviceSN: 'a\nb' }],
    ['a serial that is a number', { productKey: 'product-1', deviceSN: 5 }],
    ['no object', []],
  ])('refuses %s', async (_, body) => {
    const { status, message, data } = await activate(body);
    expect({ status, data }).toEqual({ status: 400, data: null });
    expect(message).toMatch(/^invalid_request: /);
  });

  it('refuses an unknown product key with data null', async () => {
    for (const productKey of ['never-made', 'a&b', '', 'x'.repeat(1000)]) {
      const { status, message, data } = await activate({ productKey, deviceSN: 'SN' });
      expect({ status, message, data }).toEqual({ status: 400, message: 'invalid_product_key', data: null });
    }
  });

  it('refuses a disabled product, new serial or known', async () => {
    const productKey = await createProduct();
    await activate({ productKey, deviceSN: 'known' });
    await call('PUT', `/products/${productKey}`, { token: owner.token, body: { status: 0 } });
    for (const deviceSN of ['known', 'new']) {
      expect(await activate({ productKey, deviceSN })).toMatchObject({ status: 403, message: 'product_disabled' });
    }
  });
});

describe('activation races', () => {
  it('of one serial end in one device, and every answer works', async () => {
    const productKey = await createProduct();
    const answers = await Promise.all(Array.from({ length: 3 }, () => activate({ productKey, deviceSN: 'SN-1' })));
    expect(new Set(answers.map(({ data }) => data.deviceId)).size).toBe(1);
    for (const { data } of answers) expect(await logIn(data.mqtt)).toBe('accepted');
  });

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
    await sessionOf(first.data.deviceId).decide({ kind: 'deleted' });
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
