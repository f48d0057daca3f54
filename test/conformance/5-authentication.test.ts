// Contract section 5: the four ways of saying who one is, and what happens to those who do not. Every credential on
// every route is test/worker/http/authorization-matrix.test.ts.
import { describe, expect, it } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { signAccessToken } from '../../src/crypto/tokens.ts';
import { newProductKey } from '../../rig/clients/accounts.ts';
import {
  ask,
  bearer,
  connect,
  connectDevice,
  keyPair,
  mqttUrlOf,
  newDevice,
  openRelay,
  service,
  signUp,
} from '../../rig/clients/conformance-client.ts';
import { refusalOf } from '../../rig/clients/mqtt-client.ts';

const owner = await signUp();
const key = await dataOf(owner.api.users['api-keys'].$post({ json: {} }));

function expiredToken(): Promise<string> {
  const [kid = '', secret = ''] = service.jwtSecrets.split(':');
  const config = { signingKeys: [{ kid, secret }], accessTokenSeconds: -60 };
  return signAccessToken(config, owner.user.userId, 'a-session');
}

describe('a bearer token', () => {
  it('lets in, its scheme in any case', async () => {
    for (const Authorization of [`Bearer ${owner.token}`, `bearer ${owner.token}`, `BEARER  ${owner.token}`]) {
      expect(await ask('GET', '/users/me', { headers: { Authorization } })).toMatchObject({ code: 200 });
    }
  });

  it('is refused with 401 in the status line when missing, wrong or expired', async () => {
    const expired = await expiredToken();
    for (const headers of [
      {},
      bearer('wrong'),
      bearer(expired),
      bearer(`${owner.token}x`),
      bearer(owner.refreshToken),
    ]) {
      expect(await ask('GET', '/users/me', { headers })).toMatchObject({ status: 401, code: 401, data: null });
    }
  });

  it('does not bother register, login, refresh and activation when it is stale', async () => {
    const headers = bearer(await expiredToken());
    const { email, password } = owner;
    const login = await ask('POST', '/users/login', { headers, body: { username: email, password } });
    expect(login.code).toBe(200);
    const { refreshToken } = login.data as { refreshToken: string };
    expect(await ask('POST', '/users/refresh-token', { headers, body: { refreshToken } })).toMatchObject({ code: 200 });
    const account = { email: `${newProductKey()}@example.test`, password };
    expect(await ask('POST', '/users/register', { headers, body: account })).toMatchObject({ code: 200 });
    const activation = { productKey: newProductKey(), deviceSN: 'SN' };
    const answer = await ask('POST', '/devices/activate', { headers, body: activation });
    expect(answer.message).toBe('invalid_product_key');
  });
});

describe('an API key', () => {
  it('lets in on products, devices and the own account, in either order of its halves', async () => {
    const swapped = keyPair({ keyId: key.apiKey, apiKey: key.keyId });
    for (const path of ['/users/me', '/products', '/devices']) {
      expect(await ask('GET', path, { headers: keyPair(key) }), path).toMatchObject({ code: 200 });
      expect(await ask('GET', path, { headers: swapped }), path).toMatchObject({ code: 200 });
    }
  });

  it('manages no keys and no sessions', async () => {
    const headers = keyPair(key);
    expect(await ask('GET', '/users/api-keys', { headers })).toMatchObject({ status: 401 });
    expect(await ask('POST', '/users/api-keys', { headers, body: {} })).toMatchObject({ status: 401 });
    const passwords = { oldPassword: owner.password, newPassword: 'another horse' };
    expect(await ask('PUT', '/users/password', { headers, body: passwords })).toMatchObject({ status: 401 });
  });

  it('is refused half, mixed up or unknown', async () => {
    const other = await dataOf(owner.api.users['api-keys'].$post({ json: {} }));
    const pairs = [
      { 'X-API-Key': key.keyId },
      { 'X-API-Secret': key.apiKey },
      keyPair({ keyId: key.keyId, apiKey: other.apiKey }),
      keyPair({ keyId: 'ak_unknown', apiKey: key.apiKey }),
    ];
    for (const headers of pairs) {
      expect(await ask('GET', '/products', { headers })).toMatchObject({ status: 401, message: 'unauthorized' });
    }
  });
});

describe('no authentication', () => {
  it('is asked for by register, login, activation and health alone', async () => {
    expect(await dataOf(connect().users.login.$post({ json: owner }))).toBeDefined();
    expect(await ask('GET', '/health')).toMatchObject({ status: 200, code: 200 });
    for (const path of ['/users/me', '/users/api-keys', '/products', '/devices', '/devices/dev_1/status']) {
      expect(await ask('GET', path), path).toMatchObject({ status: 401, code: 401 });
    }
  });
});

describe('messaging credentials', () => {
  it('let the device in at the broker and the relay', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    await client.leave();
    const relay = await openRelay();
    const { username, password } = device.mqtt;
    expect(await relay.ask({ action: 'auth', username, password })).toEqual({
      action: 'auth',
      code: 200,
      message: 'success',
    });
    relay.close();
  });

  it('are refused with another client identifier, a wrong password, or the device secret', async () => {
    const device = await newDevice(owner);
    const { deviceSecret, mqtt } = device;
    const { username, password, clientId } = mqtt;
    const wrong = [
      { username, password, clientId: 'android_app' },
      { username, password, clientId: `${clientId}x` },
      { username, password: 'tk_wrong', clientId },
      { username, password: deviceSecret, clientId },
      { username, clientId },
      { clientId },
      { username: 'device_service', password, clientId: 'device_service' },
      { username: 'latchwork-bridge', password, clientId: 'latchwork-bridge' },
    ];
    for (const login of wrong) {
      expect(await refusalOf(mqttUrlOf(device), login), JSON.stringify(login)).toMatch(/^code [245]/);
    }
  });

  it('are refused by the words of rule 4 where the broker asks', async () => {
    const { mqtt } = await newDevice(owner);
    const askHook = async (login: object) => {
      const response = await fetch(`${service.url}/hooks/emqx/connect`, {
        method: 'POST',
        headers: { ...bearer(service.hookSecret), 'Content-Type': 'application/json' },
        body: JSON.stringify({ username: mqtt.username, password: mqtt.password, clientid: mqtt.clientId, ...login }),
      });
      return await response.json();
    };
    expect(await askHook({})).toMatchObject({ result: 'allow' });
    expect(await askHook({ clientid: 'other' })).toMatchObject({ result: 'deny', message: 'invalid_client_id' });
    expect(await askHook({ password: 'wrong' })).toMatchObject({ result: 'deny', message: 'invalid_password' });
  });
});
