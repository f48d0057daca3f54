// Contract section 7: error bodies, codes in the status line, and every business message from where it is raised.
import { describe, expect, it } from 'vitest';
import { addProduct, newProductKey, type Activation } from '../../rig/clients/accounts.ts';
import { activate, ask, bearer, newDevice, service, signUp } from '../../rig/clients/conformance-client.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { sendRaw } from '../../rig/clients/raw-http.ts';

const owner = await signUp();
const headers = bearer(owner.token);

describe('an error', () => {
  it('has its code in the status line, a message and null data, whatever went wrong', async () => {
    const { deviceId } = await newDevice(owner);
    const asked: [string, string, object][] = [
      ['POST', '/users/login', { body: '{"username":' }],
      ['POST', '/users/login', { body: 'null' }],
      ['POST', '/products', { headers, body: '[' }],
      ['GET', '/nothing', {}],
      ['GET', '/api/v2/users/me', { headers }],
      ['GET', '/api/', {}],
      ['PATCH', '/users/me', { headers }],
      ['PUT', `/devices/${deviceId}/control`, { headers, body: {} }],
      ['GET', '/devices?page=0', { headers }],
      ['GET', `/devices/${deviceId}/nothing`, { headers }],
    ];
    for (const [method, path, options] of asked) {
      const { status, code, message, data } = await ask(method, path, options);
      expect(status, `${method} ${path}`).toBe(code);
      expect(code).toBeGreaterThanOrEqual(400);
      expect(code).toBeLessThan(500);
      expect(message).toMatch(/^[a-z_]+(: |$)/);
      expect(data).toBeNull();
    }
  });

  it.each([
    ['malformed chunks', 'Transfer-Encoding: chunked', 'zz\r\n{"username"'],
    ['a chunk that is longer than announced', 'Transfer-Encoding: chunked', '3\r\n{"usern\r\n0\r\n\r\n'],
    ['a chunk that breaks off', 'Transfer-Encoding: chunked', '20\r\n{"username"'],
    ['a body that breaks off', 'Content-Length: 100', '{"username"'],
  ])('says of %s that the body did not come whole', async (_, header, body) => {
    const head = `POST /api/v1/users/login HTTP/1.1\r\nHost: ${new URL(service.url).host}\r\n${header}\r\n\r\n`;
    const answer = await sendRaw(service.url, [head, body], { leaves: true });
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      400,
      { code: 400, message: 'invalid_request: body: not received whole', data: null },
    ]);
  });

  it('answers an unknown route and a wrong method with not_found', async () => {
    for (const [method, path] of [
      ['GET', '/api/v1/nothing'],
      ['DELETE', '/api/v1/users/me'],
      ['POST', '/api/v1/devices/dev_1'],
      ['GET', '/api/'],
    ] as const) {
      const answer = await ask(method, path, { headers });
      expect(answer, path).toMatchObject({ status: 404, code: 404, message: 'not_found', data: null });
    }
  });

  it('says which field was wrong, within 200 bytes', async () => {
    const long = '\u{1f600}'.repeat(300);
    const answer = await ask('POST', '/products', { headers, body: { productKey: long, name: long } });
    expect(answer.message).toMatch(/^invalid_request: productKey: /);
    const nested = await ask('POST', '/users/register', { body: { email: { [long]: 1 }, password: long } });
    for (const { message } of [answer, nested]) expect(Buffer.byteLength(message)).toBeLessThanOrEqual(200);
  });
});

describe('the business messages', () => {
  it.each([
    ['invalid_product_key', 400, async () => activation(newProductKey())],
    ['product_disabled', 403, async () => activation(await disabledProduct())],
    ['device_not_found', 404, () => ask('GET', '/devices/dev_00000000', { headers })],
    ['device_disabled', 403, async () => control({ action: 'trigger' }, await disabledDevice())],
    ['device_disabled', 403, async () => activateDisabled()],
    ['invalid_password', 401, () => ask('POST', '/users/login', { body: { username: 'nobody', password: 'wrong' } })],
    ['no_control_params', 400, async () => control({})],
    ['invalid_control_params', 400, async () => control({ action: 'fly' })],
    ['forbidden', 403, async () => ask('GET', `/products/${await foreignProduct()}`, { headers })],
    ['product_key_exists', 400, async () => addAgain(await addProduct(owner))],
    ['product_has_devices', 400, async () => removeUsed()],
    ['unauthorized', 401, () => ask('GET', '/users/me')],
  ] as const)('%s comes with code %d', async (message, code, cause) => {
    expect(await cause()).toMatchObject({
      status: code,
      code,
      message: expect.stringMatching(`^${message}(: .+)?$`) as string,
      data: null,
    });
  });

  const activation = (productKey: string) =>
    ask('POST', '/devices/activate', { body: { productKey, deviceSN: 'SN-0001' } });

  async function disabledProduct(): Promise<string> {
    const productKey = await addProduct(owner);
    await dataOf(owner.api.products[':productKey'].$put({ param: { productKey }, json: { status: 0 } }));
    return productKey;
  }

  async function control(body: object, device?: Activation) {
    const { deviceId } = device ?? (await newDevice(owner));
    return ask('POST', `/devices/${deviceId}/control`, { headers, body });
  }

  async function disabledDevice(productKey?: string): Promise<Activation> {
    const device = await activate(productKey ?? (await addProduct(owner)));
    await dataOf(owner.api.devices[':deviceId'].$patch({ param: device, json: { disabled: true } }));
    return device;
  }

  async function activateDisabled() {
    const productKey = await addProduct(owner);
    await disabledDevice(productKey);
    return activation(productKey);
  }

  async function foreignProduct(): Promise<string> {
    return addProduct(await signUp());
  }

  function addAgain(productKey: string) {
    return ask('POST', '/products', { headers, body: { productKey, name: 'Again' } });
  }

  async function removeUsed() {
    const productKey = await addProduct(owner);
    await activate(productKey);
    return ask('DELETE', `/products/${productKey}`, { headers });
  }
});
