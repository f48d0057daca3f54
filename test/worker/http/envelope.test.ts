// What every request and answer has in common: the envelope, bodies, headers, CORS, request ids and log lines.
import { env } from 'cloudflare:workers';
import { createExecutionContext } from 'cloudflare:test';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import journal from '../../../migrations/meta/_journal.json';
import { createApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { uplinkPath } from '../../../src/protocol/bridge.ts';
import { call, createUser, send, type TestUser } from '../rig/clients/client.ts';
import { sendWith } from '../rig/limited.ts';

let user: TestUser;
beforeAll(async () => {
  user = await createUser();
});

type Line = Record<string, unknown>;

/** The log lines written while `work` runs, parsed; and the text of all of them. */
async function capture(work: () => Promise<unknown>): Promise<{ lines: Line[]; text: string }> {
  const texts: string[] = [];
  for (const level of ['info', 'warn', 'error'] as const) {
    vi.spyOn(console, level).mockImplementation((text: string) => void texts.push(text));
  }
  await work();
  return { lines: texts.map((text) => JSON.parse(text) as Line), text: texts.join('\n') };
}

const sendTo = async (request: Request) => createApp().fetch(request, env, createExecutionContext());

describe('every answer', () => {
  it('is not to be stored, sniffed, framed or run', async () => {
    for (const path of ['/users/me', '/nothing', '/health']) {
      const { headers } = await send('GET', path, { token: user.token });
      expect(headers.get('Cache-Control')).toBe('no-store');
      expect(headers.get('X-Content-Type-Options')).toBe('nosniff');
      expect(headers.get('X-Frame-Options')).toBe('DENY');
      expect(headers.get('Content-Security-Policy')).toBe("default-src 'none'; frame-ancestors 'none'");
      expect(headers.get('Strict-Transport-Security')).toContain('max-age=');
    }
  });

  it('has no body for HEAD', async () => {
    const response = await send('HEAD', '/users/me', { token: user.token });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('');
  });
});

describe('a request body', () => {
  const url = 'https://latchwork.test/api/v1/products';

  /** A request whose body comes in these chunks, and then ends as it is told to. */
  function streaming(chunks: Uint8Array[], end: (controller: ReadableStreamDefaultController) => void): Request {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        end(controller);
      },
    });
    return new Request(url, { method: 'POST', headers: { Authorization: `Bearer ${user.token}` }, body });
  }

  const half = new TextEncoder().encode('{"productKey":');

  it.each(['{', '', 'null', '[]', '"x"', '1', '{"productKey":', 'a=b', '\u0000', '{"__proto__":{"name":"x"}}'])(
    'that is %j is refused',
    async (body) => {
      const answer = await call('POST', '/products', { token: user.token, body });
      expect(answer).toMatchObject({ status: 400, code: 400, data: null });
      expect(answer.message).toMatch(/^invalid_request: /);
    },
  );

  it('that is nested deeply is refused like any other', async () => {
    const answer = await call('POST', '/products', { token: user.token, body: '['.repeat(30_000) });
    expect(answer).toMatchObject({ status: 400, data: null });
  });

  it('that breaks off is refused without an error in the log, which names the cause', async () => {
    const request = streaming([half], (controller) => controller.error(new Error('the client left')));
    let status = 0;
    const { lines } = await capture(async () => (status = (await sendTo(request)).status));
    expect(status).toBe(400);
    expect(lines).toMatchObject([
      {
        level: 'info',
        event: 'request',
        code: 400,
        refusal: { kind: 'body_not_received', cause: 'Error: the client left' },
      },
    ]);
  });

  it('that does not come whole in time is refused', async () => {
    const request = streaming([half], () => undefined);
    const later = globalThis.setTimeout;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((run: () => void, ms: number) =>
      later(run, ms === 10_000 ? 50 : ms)) as never);
    const answer = await sendTo(request);
    vi.restoreAllMocks();
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ message: 'invalid_request: body: not received whole', data: null });
  });

  it('may be chunked in the middle of a character, and have no content type', async () => {
    const bytes = new TextEncoder().encode('{"productKey":"chunked","name":"Schlüssel"}');
    const cut = bytes.indexOf(0xc3) + 1;
    const request = streaming([bytes.slice(0, cut), bytes.slice(cut)], (controller) => controller.close());
    const response = await sendTo(request);
    expect(await response.json()).toMatchObject({ code: 200, data: { name: 'Schlüssel' } });
  });
});

describe('a browser of a configured origin', () => {
  const anyPort = 'http://localhost:*';

  it.each([
    ['https://app.test', 'https://app.test', 'https://app.test'],
    ['https://app.test', 'https://elsewhere.test', null],
    ['https://app.test', 'https://app.test.elsewhere.test', null],
    ['https://app.test', 'null', null],
    ['*', 'https://any.test', '*'],
    [anyPort, 'http://localhost', 'http://localhost'],
    [anyPort, 'http://localhost:5173', 'http://localhost:5173'],
    [anyPort, 'https://localhost', null],
    [anyPort, 'http://localhost:80.evil.test', null],
    [anyPort, 'http://localhost.evil.test:80', null],
  ])('where %s is configured, %s is answered %s', async (configured, Origin, allowed) => {
    const response = await sendWith({ CORS_ORIGINS: configured }, 'GET', '/api/v1/nothing', { headers: { Origin } });
    expect(response.headers.get('Access-Control-Allow-Origin')).toBe(allowed);
  });

  it('is none whose configured origin could never match', async () => {
    const { text } = await capture(async () => {
      const changes = { CORS_ORIGINS: 'https://a.test, https://b.test/' };
      expect((await sendWith(changes, 'GET', '/products')).status).toBe(503);
    });
    expect(text).toContain('CORS_ORIGINS has the form https://host or *');
  });
});

describe('a request', () => {
  it('has an id, its own where it is sane, in the answer and in its one log line', async () => {
    const { lines } = await capture(async () => {
      for (const [given, kept] of [
        ['my-id.7_A', true],
        ['two words', false],
        ['x'.repeat(65), false],
      ] as const) {
        const { headers } = await call('GET', '/users/me', { token: user.token, headers: { 'X-Request-Id': given } });
        expect(headers.get('X-Request-Id') === given).toBe(kept);
        expect(headers.get('X-Request-Id')).toMatch(/^[A-Za-z0-9._-]{1,64}$/);
      }
      await call('GET', '/api/v1/nothing', { headers: { 'CF-Ray': '8f0a1b2c3d4e5f60-FRA' } });
    });
    expect(lines).toHaveLength(4);
    expect(lines[0]).toEqual({
      level: 'info',
      event: 'request',
      requestId: 'my-id.7_A',
      method: 'GET',
      route: '/api/v1/users/me',
      code: 200,
      durationMs: expect.any(Number) as number,
      caller: 'user',
      userId: user.userId,
    });
    expect(lines[3]).toMatchObject({ requestId: '8f0a1b2c3d4e5f60-FRA', code: 404, caller: 'none' });
  });

  it('of the bridge leaves a line only where it is refused: it comes with nearly every message', async () => {
    const body = { spoolId: 'spool', sentAtMs: Date.now(), items: [null] };
    const headers = { Authorization: `Bearer ${readConfig(env).bridgeSecrets[0]!}` };
    const { lines } = await capture(async () => {
      expect((await call('POST', uplinkPath, { headers, body })).code).toBe(200);
      await call('POST', uplinkPath, { headers, body: {} });
    });
    expect(lines).toEqual([expect.objectContaining({ event: 'request', route: uplinkPath, code: 400 })]);
  });

  it('leaves its route and the reason of its refusal in the log, and no body, query or credential', async () => {
    const { lines, text } = await capture(async () => {
      await call('GET', '/products/known-key?category=secret-category', { token: user.token });
      await call('POST', '/users/login', { body: { email: 'secret@example.test', password: 'secret password' } });
      await call('GET', '/users/me', { key: { keyId: 'ak_secret', apiKey: 'sk_secret' } });
      await call('GET', `/products/${encodeURIComponent('sk_secretsecret secret@example.test')}`, {
        token: user.token,
      });
      await call('DELETE', `/devices/${'x'.repeat(2000)}`, { token: user.token });
    });
    expect(lines.map(({ route, code, refusal }) => [route, code, refusal])).toEqual([
      ['/api/v1/products/:productKey', 404, { kind: 'not_found', what: 'product', id: 'known-key' }],
      [
        '/api/v1/users/login',
        401,
        { kind: 'credential_refused', credential: 'account_password', problem: 'unknown_account' },
      ],
      ['/api/v1/users/me', 401, { kind: 'credential_refused', credential: 'api_key', problem: 'malformed' }],
      ['/api/v1/products/:productKey', 404, { kind: 'not_found', what: 'product', id: '[masked] [masked]' }],
      ['/api/v1/devices/:deviceId', 404, { kind: 'not_found', what: 'device', id: 'x'.repeat(256) }],
    ]);
    expect(text).not.toContain('secret');
    expect(text).not.toContain(user.token);
  });

  it.each([
    ['access_token', 'missing', {}],
    ['access_token', 'malformed', { Authorization: 'Basic eDp5' }],
    ['access_token', 'malformed', { Authorization: 'Bearer no-token' }],
    ['api_key', 'missing', { 'X-API-Key': 'ak_x' }],
    ['api_key', 'malformed', { 'X-API-Key': 'ak_x', 'X-API-Secret': 'sk_x' }],
    ['api_key', 'wrong', { 'X-API-Key': `ak_${'x'.repeat(20)}`, 'X-API-Secret': `sk_${'x'.repeat(40)}` }],
  ])('that is refused for its %s says in the log that it was %s', async (credential, problem, headers) => {
    const path = credential === 'api_key' ? '/users/me' : '/users/api-keys';
    const { lines } = await capture(async () => {
      expect((await call('GET', path, { headers: headers })).code).toBe(401);
    });
    expect(lines).toEqual([expect.objectContaining({ refusal: { kind: 'credential_refused', credential, problem } })]);
  });

  it.each([
    ['D1_ERROR: no such table: users: SQLITE_ERROR', 500, 'internal_error', null],
    ['D1_ERROR: database is locked: SQLITE_BUSY', 503, 'unavailable', '5'],
    ['Network connection lost.', 503, 'unavailable', '5'],
  ])(
    'that fails inside with "%s" is answered %d, and its cause is in the log alone',
    async (cause, status, message, retryAfter) => {
      const body = { email: 'secret@example.test', password: 'secret password' };
      const broken = {
        withSession: () => ({ prepare: () => failing, batch: () => Promise.reject(new Error(cause)) }),
      };
      const failing = {
        bind: () => failing,
        all: () => Promise.reject(new Error(cause)),
        raw: () => Promise.reject(new Error(cause)),
      };
      const { lines, text } = await capture(async () => {
        const response = await sendWith({ DB: broken }, 'POST', '/users/login', { body });
        expect([response.status, response.headers.get('Retry-After')]).toEqual([status, retryAfter]);
        expect(await response.json()).toEqual({ code: status, message, data: null });
      });
      expect(lines.map(({ event }) => event)).toEqual(['uncaught', 'request']);
      expect(lines[0]).toMatchObject({ level: 'error', error: cause, requestId: lines[1]!['requestId'] });
      expect(lines[0]!['missingMigration']).toBe(status === 500 ? journal.entries[0]!.tag : undefined);
      expect(lines[0]!['query']).toContain('select');
      expect(text).not.toContain('secret');
    },
  );

  it.each(['/', '/docs', '/health', '/api/v1/products', '/hooks/emqx/connect', '/mqtt', '/g/x', '/nothing'])(
    'to %s is answered 503 without settings: the log names them, the answer only what to run',
    async (path) => {
      const { text } = await capture(async () => {
        const response = await sendWith({ JWT_SECRETS: 'kid:too-short', MQTT_HOST: '' }, 'GET', path);
        expect(response.status).toBe(503);
        const message = 'not configured: run `npm run dev` once on a laptop, `npm run deploy` for a deployment';
        expect(await response.json()).toEqual({ code: 503, message, data: null });
      });
      expect(text).toContain('JWT_SECRETS');
      expect(text).toContain('MQTT_HOST');
      expect(text).not.toContain('too-short');
    },
  );
});
