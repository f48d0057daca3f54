// Contract section 7: error bodies and codes in the status line. Sections 3 and 4 have the business messages.
import { describe, expect, it } from 'vitest';
import { ask, bearer, newDevice, service, signUp } from '../../rig/clients/conformance-client.ts';
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
      ['GET', '/api/v2/users/me', { headers }],
      ['GET', '/api/', {}],
      ['GET', '/users/me', {}],
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

  it('says which field was wrong, within 200 bytes', async () => {
    const long = '\u{1f600}'.repeat(300);
    const answer = await ask('POST', '/products', { headers, body: { productKey: long, name: long } });
    expect(answer.message).toMatch(/^invalid_request: productKey: /);
    const nested = await ask('POST', '/users/register', { body: { email: { [long]: 1 }, password: long } });
    for (const { message } of [answer, nested]) expect(Buffer.byteLength(message)).toBeLessThanOrEqual(200);
  });
});
