// What devices and applications in the field need of HTTP beyond the contract, byte by byte where it matters: each test
// begins with the number of its field note. Messages and relay are in 6-events and 6-relay.
import { describe, expect, it } from 'vitest';
import { addProduct, newProductKey } from '../../rig/clients/accounts.ts';
import {
  activate,
  ask,
  bearer,
  holdToReference,
  newDevice,
  service,
  signUp,
} from '../../rig/clients/conformance-client.ts';
import { sendRaw, type RawAnswer } from '../../rig/clients/raw-http.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const headers = bearer(owner.token);
const host = new URL(service.url).host;

type Activated = { code: number; data: { deviceId: string; mqtt: Record<string, unknown> } };

/** One request, its lines as a device writes them. */
async function raw(lines: string[], ...body: (string | Uint8Array)[]): Promise<RawAnswer> {
  return sendRaw(service.url, [`${lines.join('\r\n')}\r\n\r\n`, ...body]);
}

function chunked(text: string, sizes: number[]): string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const size of sizes) {
    const part = text.slice(at, at + size);
    if (part !== '') pieces.push(`${part.length.toString(16)}\r\n${part}\r\n`);
    at += size;
  }
  if (at < text.length) pieces.push(`${(text.length - at).toString(16)}\r\n${text.slice(at)}\r\n`);
  return [...pieces, '0\r\n\r\n'];
}

describe('A. device activation', () => {
  it('3. has code, ports and keep-alive as integers', async () => {
    const body = JSON.stringify({ productKey: await addProduct(owner), deviceSN: 'SN-3' });
    const response = await fetch(`${service.url}/api/v1/devices/activate`, { method: 'POST', body });
    const text = await response.text();
    expect(text).toMatch(/"code":200[,}]/);
    for (const member of ['port', 'portTLS', 'keepAlive']) expect(text).toMatch(new RegExp(`"${member}":\\d+[,}]`));
  });

  it('6. works for a stack that sends header and body apart and cannot inflate or follow', async () => {
    const body = JSON.stringify({ productKey: await addProduct(owner), deviceSN: 'SN-6' });
    const lines = [
      'POST /api/v1/devices/activate HTTP/1.1',
      `Host: ${host}`,
      'User-Agent: ESP32HTTPClient',
      'Connection: keep-alive',
      'Accept-Encoding: identity;q=1,chunked;q=0.1,*;q=0',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ];
    const answer = await raw(lines, body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-encoding')).toBeUndefined();
    expect(answer.headers.get('content-type')).toBe('application/json');
    const activation = JSON.parse(answer.body) as Activated;
    expect(activation.code).toBe(200);
    holdToReference('POST', '/api/v1/devices/activate', 200, activation);
    const inBytes = await raw(lines, ...Array.from(body));
    expect(JSON.parse(inBytes.body)).toMatchObject({ data: { deviceId: activation.data.deviceId } });
  });

  it('7. answers within ten seconds, many at once', async () => {
    const productKey = await addProduct(owner);
    const startedAtMs = Date.now();
    await Promise.all(Array.from({ length: 50 }, (_, index) => activate(productKey, `SN-${index}`)));
    expect(Date.now() - startedAtMs).toBeLessThan(10_000);
  });

  it('8. never locks out twenty devices that retry behind one address', async () => {
    const productKey = newProductKey();
    const tries = Array.from({ length: 240 }, (_, index) =>
      ask('POST', '/devices/activate', { body: { productKey, deviceSN: `SN-${index % 20}` } }),
    );
    for (const { message } of await Promise.all(tries)) expect(message).toBe('invalid_product_key');
  });
});

describe('B. HTTP for applications', () => {
  it('16. is the JSON envelope for every mistake that can be made on a socket', async () => {
    const post = `POST /api/v1/users/login HTTP/1.1\r\nHost: ${host}`;
    const mistakes: [string, string[], (string | Uint8Array)[]][] = [
      ['no body', [post, 'Content-Length: 0'], []],
      ['half a body', [post, 'Content-Length: 5'], ['{"a":']],
      ['a body of another type', [post, 'Content-Type: text/plain', 'Content-Length: 5'], ['hello']],
      ['a form', [post, 'Content-Type: application/x-www-form-urlencoded', 'Content-Length: 7'], ['user=me']],
      ['bytes that are no text', [post, 'Content-Length: 4'], [new Uint8Array([0xff, 0xfe, 0xc0, 0x00])]],
      ['a method nobody serves', [`PROPFIND /api/v1/users/login HTTP/1.1\r\nHost: ${host}`], []],
      ['an unknown route', [`GET /favicon.ico HTTP/1.1\r\nHost: ${host}`], []],
    ];
    for (const [what, lines, body] of mistakes) {
      const answer = await raw(lines, ...body);
      expect(answer.headers.get('content-type'), what).toBe('application/json');
      expect(JSON.parse(answer.body), what).toMatchObject({ code: answer.status, data: null });
    }
  });

  it('19. takes header names in any letter case', async () => {
    const body = JSON.stringify({ productKey: newProductKey(), name: 'Shouted' });
    const answer = await raw(
      [
        'POST /api/v1/products HTTP/1.1',
        `hOST: ${host}`,
        `AUTHORIZATION: Bearer ${owner.token}`,
        'content-TYPE: APPLICATION/JSON; charset=UTF-8',
        `CONTENT-length: ${body.length}`,
      ],
      body,
    );
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { code: 200, message: 'success' }]);
    const key = await dataOf(owner.api.users['api-keys'].$post({ json: {} }));
    const me = await raw([
      'GET /api/v1/users/me HTTP/1.1',
      `host: ${host}`,
      `x-api-KEY: ${key.keyId}`,
      `X-Api-Secret: ${key.apiKey}`,
    ]);
    expect(me.status).toBe(200);
  });

  it('19. takes bodies in chunks of any size', async () => {
    for (const sizes of [[], [1, 1, 1, 2], [10, 1, 30]]) {
      const body = JSON.stringify({ productKey: newProductKey(), name: 'In chunks' });
      const answer = await raw(
        [
          'POST /api/v1/products HTTP/1.1',
          `Host: ${host}`,
          `Authorization: Bearer ${owner.token}`,
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
        ],
        ...chunked(body, sizes),
      );
      expect([answer.status, answer.body]).toMatchObject([200, expect.stringContaining('"code":200')]);
    }
  });

  it('19. takes GET and DELETE with a JSON content type and no body', async () => {
    const json = { ...headers, 'Content-Type': 'application/json' };
    expect(await ask('GET', '/users/me', { headers: json })).toMatchObject({ code: 200 });
    const { deviceId } = await newDevice(owner);
    expect(await ask('DELETE', `/devices/${deviceId}`, { headers: json })).toMatchObject({ code: 200 });
    const productKey = await addProduct(owner);
    const lines = [
      `DELETE /api/v1/products/${productKey} HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${owner.token}`,
    ];
    const answer = await raw([...lines, 'Content-Type: application/json', 'Content-Length: 0']);
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { data: { productKey } }]);
  });

  it('30. lets browser applications of the configured origins call, errors included', async () => {
    const preflight = await fetch(`${service.url}/api/v1/devices`, {
      method: 'OPTIONS',
      headers: {
        Origin: service.allowedOrigin,
        'Access-Control-Request-Method': 'DELETE',
        'Access-Control-Request-Headers': 'authorization,content-type,x-api-key,x-api-secret',
      },
    });
    expect(preflight.ok).toBe(true);
    expect(preflight.headers.get('Access-Control-Allow-Origin')).toBe(service.allowedOrigin);
    expect(preflight.headers.get('Access-Control-Allow-Methods')).toContain('DELETE');
    const allowed = preflight.headers.get('Access-Control-Allow-Headers')?.toLowerCase() ?? '';
    for (const name of ['authorization', 'content-type', 'x-api-key', 'x-api-secret']) expect(allowed).toContain(name);
    for (const path of ['/users/me', '/nothing', '/devices?page=0']) {
      const answer = await ask('GET', path, { headers: { Origin: service.allowedOrigin } });
      expect(answer.code).toBeGreaterThanOrEqual(400);
      expect(answer.headers.get('Access-Control-Allow-Origin'), path).toBe(service.allowedOrigin);
      expect(answer.headers.get('Access-Control-Allow-Credentials')).toBeNull();
    }
    const foreign = await ask('GET', '/users/me', { headers: { Origin: 'https://elsewhere.example' } });
    expect(foreign.headers.get('Access-Control-Allow-Origin')).toBeNull();
  });

  it('31. has a health address for deployment checks', async () => {
    expect(await ask('GET', '/health')).toMatchObject({ status: 200, code: 200, data: { status: 'ok' } });
  });
});
