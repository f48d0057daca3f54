// Credentials pushed to EMQX through its API, which answers as each test says: which calls are made, and what becomes of an
// operation that the API refuses. Read in github.com/emqx/emqx at v5.4.1 and v5.8.9: apps/emqx_auth_mnesia/src/
// emqx_authn_mnesia.erl (`get_user_identity`: with `user_id_type = clientid` the password belongs to the client id),
// emqx_authz_api_mnesia.erl (`clients`, `client`: paths, bodies, statuses); apps/emqx_management/src/
// emqx_mgmt_api_banned.erl (400 `ALREADY_EXISTS`, with the old ban as text).
import { env } from 'cloudflare:workers';
import { beforeEach, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { deliverOutbox } from '../../../src/services/broker/provisioning.ts';
import { withEmqx } from '../rig/emqx.ts';
import { contextOf, emptyOutbox, other, provision, sealedPasswords } from '../rig/outbox.ts';

type Exchange = { method: string; url: string; body: unknown; authorization: string | null };
const exchanges: Exchange[] = [];
let answers: (exchange: Exchange) => { status: number; body?: object };

beforeEach(async () => {
  await emptyOutbox();
  vi.useFakeTimers({ toFake: ['Date'] });
  exchanges.length = 0;
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    const text = await request.text();
    const exchange = {
      method: request.method,
      url: request.url,
      body: text === '' ? undefined : (JSON.parse(text) as unknown),
      authorization: request.headers.get('Authorization'),
    };
    exchanges.push(exchange);
    const { status, body } = answers(exchange);
    return new Response(body === undefined ? null : JSON.stringify(body), { status });
  });
});

const api = 'https://emqx.test:8443/api/v5';
const user = `${api}/authentication/password_based%3Abuilt_in_database/users`;
const rule = `${api}/authorization/sources/built_in_database/rules/clients`;
const name = 'acme%26dev_01abcdef';
const notFound = { status: 404, body: { code: 'NOT_FOUND', message: 'Not Found' } };
const calls = () => exchanges.map(({ method, url }) => `${method} ${url}`);

/** The calls of a delivery after so long; by default after the longest wait. */
async function callsAfter(waitMs = 11 * 60_000): Promise<string[]> {
  exchanges.length = 0;
  vi.setSystemTime(Date.now() + waitMs);
  await deliverOutbox(contextOf(withEmqx));
  return calls();
}

it('makes a user that is not there, rights first', async () => {
  answers = ({ method, url }) => {
    if (method === 'PUT' && url.startsWith(user)) return notFound;
    if (method === 'POST') return { status: 201, body: { user_id: 'acme&dev_01abcdef', is_superuser: false } };
    return method === 'DELETE' ? notFound : { status: 204 };
  };
  await provision(withEmqx, { kind: 'upsert', password: 'tk_first' });
  expect(calls()).toEqual([
    `PUT ${rule}/${name}`,
    `PUT ${user}/${name}`,
    `POST ${user}`,
    `DELETE ${api}/banned/clientid/${name}`,
  ]);
  expect(exchanges[0]?.body).toEqual({
    clientid: 'acme&dev_01abcdef',
    rules: [
      {
        permission: 'allow',
        action: 'publish',
        topic: 'eq /sys/acme/dev_01abcdef/thing/event/property/post',
        retain: false,
      },
      {
        permission: 'allow',
        action: 'publish',
        topic: 'eq /sys/acme/dev_01abcdef/thing/service/property/set_reply',
        retain: false,
      },
      { permission: 'allow', action: 'publish', topic: 'eq /sys/acme/dev_01abcdef/status' },
      { permission: 'allow', action: 'subscribe', topic: '/sys/acme/dev_01abcdef/#' },
      { permission: 'deny', action: 'all', topic: '#' },
    ],
  });
  expect(exchanges[1]?.body).toEqual({ password: 'tk_first', is_superuser: false });
  expect(exchanges[2]?.body).toEqual({ user_id: 'acme&dev_01abcdef', password: 'tk_first', is_superuser: false });
  expect(exchanges[0]?.authorization).toBe(`Basic ${btoa('key-of-the-tests:secret-of-the-tests')}`);
  expect(await sealedPasswords()).toEqual([null]);
  expect(await callsAfter(), 'it is delivered').toEqual([]);
});

it('changes a user that is there, and ends its sessions where that is asked', async () => {
  answers = ({ url }) => (url.startsWith(user) ? { status: 200, body: { user_id: 'x' } } : { status: 204 });
  await provision(withEmqx, { kind: 'upsert', password: 'tk_next', endsSessions: true });
  expect(calls()).toEqual([
    `PUT ${rule}/${name}`,
    `PUT ${user}/${name}`,
    `DELETE ${api}/banned/clientid/${name}`,
    `DELETE ${api}/clients/${name}`,
  ]);
});

it('bans and lifts the ban', async () => {
  answers = ({ method }) => (method === 'DELETE' ? { status: 204 } : { status: 200, body: {} });
  await provision(withEmqx, { kind: 'disable' });
  await provision(withEmqx, { kind: 'upsert' });
  expect(calls()).toEqual([
    `POST ${api}/banned`,
    `DELETE ${api}/clients/${name}`,
    `DELETE ${api}/banned/clientid/${name}`,
  ]);
  expect(exchanges[0]?.body).toEqual({
    as: 'clientid',
    who: 'acme&dev_01abcdef',
    by: 'latchwork',
    reason: 'device disabled',
    until: '2999-12-31T23:59:59Z',
  });
});

// The old ban is EMQX's message, as text.
const oldBan = '{"as":"clientid","who":"acme&dev_01abcdef","until":"2999-12-31T23:59:59+00:00"}';
const bannedAlready = { status: 400, body: { code: 'ALREADY_EXISTS', message: oldBan } };
const notTaken = { status: 400, body: { code: 'BAD_REQUEST', message: 'banned time is in the past' } };

it('takes a device that is banned already for banned', async () => {
  answers = ({ method }) => (method === 'POST' ? bannedAlready : { status: 204 });
  await provision(withEmqx, { kind: 'disable' });
  expect(calls()).toEqual([`POST ${api}/banned`, `DELETE ${api}/clients/${name}`]);
  expect(await callsAfter(), 'it is delivered').toEqual([]);
});

it.each([
  ['is refused', notTaken],
  ['is answered with nothing that EMQX says', { status: 400 }],
])('keeps trying a ban that %s', async (_, refusal) => {
  answers = ({ method }) => (method === 'POST' ? refusal : { status: 204 });
  await provision(withEmqx, { kind: 'disable' });
  answers = ({ method }) => (method === 'POST' ? { status: 200, body: {} } : { status: 204 });
  expect(await callsAfter()).toEqual([`POST ${api}/banned`, `DELETE ${api}/clients/${name}`]);
  expect(await callsAfter(), 'it is delivered').toEqual([]);
});

it('removes user, rules, ban and sessions, whatever of them is there', async () => {
  answers = () => notFound;
  await provision(withEmqx, { kind: 'delete' });
  expect(calls()).toEqual([
    `DELETE ${user}/${name}`,
    `DELETE ${rule}/${name}`,
    `DELETE ${api}/banned/clientid/${name}`,
    `DELETE ${api}/clients/${name}`,
  ]);
  expect(await callsAfter(), 'it is delivered').toEqual([]);
});

it.each([500, 503, 401, 429])('does not try the other entries while the API answers %d', async (status) => {
  answers = () => ({ status });
  await provision(withEmqx, { kind: 'disable' });
  await provision(withEmqx, { kind: 'disable' }, other);
  expect(await callsAfter()).toHaveLength(1);
  answers = ({ method }) => (method === 'DELETE' ? { status: 204 } : { status: 200, body: {} });
  expect(await callsAfter(), 'both').toHaveLength(4);
  expect(await callsAfter(), 'both are delivered').toEqual([]);
});

it('is not held up by one entry that the API refuses for ever', async () => {
  answers = () => ({ status: 500 });
  await provision(withEmqx, { kind: 'disable' });
  await provision(withEmqx, { kind: 'disable' }, other);
  answers = ({ method, body }) => {
    if (method === 'DELETE') return { status: 204 };
    return (body as { who: string }).who === 'acme&dev_01abcdef' ? { status: 409 } : { status: 200, body: {} };
  };
  expect(await callsAfter(), 'the refused one, then the other').toHaveLength(3);
  expect(await callsAfter(), 'the refused one alone').toEqual([`POST ${api}/banned`]);
  expect((exchanges[0]!.body as { who: string }).who).toBe('acme&dev_01abcdef');
});

it('waits longer after each attempt, up to ten minutes', async () => {
  // The longest that chance makes a wait.
  vi.spyOn(Math, 'random').mockReturnValue(1);
  answers = () => ({ status: 500 });
  await provision(withEmqx, { kind: 'disable' });
  for (const seconds of [6, 11, 21, 41, 81, 161, 321, 601, 601]) {
    expect(await callsAfter(seconds * 1_000 - 1)).toEqual([]);
    expect(await callsAfter(1)).toHaveLength(1);
  }
});

it('logs neither passwords nor what the API says', async () => {
  const lines: string[] = [];
  for (const level of ['info', 'warn', 'error'] as const) {
    vi.spyOn(console, level).mockImplementation((line) => lines.push(String(line)));
  }
  answers = ({ body }) => ({ status: 422, body: { echo: body } });
  await provision(withEmqx, { kind: 'upsert', password: 'tk_of-the-device' });
  expect(lines.join()).toContain('broker outbox: not delivered yet');
  expect(lines.join()).not.toMatch(/tk_of|secret-of-the-tests|key-of-the-tests/);
});

it('does nothing where the broker has a login hook', async () => {
  await provision(env, { kind: 'upsert', password: 'tk_first' });
  expect(await callsAfter(), 'nothing was recorded').toEqual([]);
});

it('refuses a configuration that names EMQX without its API', () => {
  expect(() => readConfig({ ...env, BROKER_PROVISIONING: 'emqx' } as unknown as Env)).toThrow(
    'BROKER_PROVISIONING emqx needs BROKER_API_URL, BROKER_API_KEY and BROKER_API_SECRET',
  );
});
