// Contract section 5: the four ways of saying who one is, and what happens to those who do not. Every credential on
// every route is test/worker/http/authorization-matrix.test.ts.
import { describe, expect, it } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { signAccessToken } from '../../src/crypto/tokens.ts';
import { newProductKey } from '../../rig/clients/accounts.ts';
import { ask, bearer, keyPair, newDevice, service, signUp } from '../../rig/clients/conformance-client.ts';

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

it('an API key lets in on products, devices and the account, in either order of its halves', async () => {
  const swapped = keyPair({ keyId: key.apiKey, apiKey: key.keyId });
  const named = { 'X-Key-Id': key.keyId, 'X-API-Key': key.apiKey };
  for (const path of ['/users/me', '/products', '/devices']) {
    for (const headers of [keyPair(key), swapped, named])
      expect(await ask('GET', path, { headers }), path).toMatchObject({ code: 200 });
  }
});

it('messaging credentials are refused by the words of rule 4 where the broker asks', async () => {
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
