// Credentials pushed to a broker without a login hook: recorded with the change, delivered at once or when the broker is
// back, in order, once; never readable in the database. mosquitto's commands go to a bridge, EMQX's calls are recorded.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { deleteExpiredRows } from '../../src/db/expired-rows.ts';
import { linkPath, linkPing, linkPong } from '../../src/protocol/bridge.ts';
import { createContext } from '../../src/services/context.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../src/services/broker-provisioning.ts';
import { createUser, type TestUser } from '../rig/workerd/client.ts';
import { withEmqx } from '../rig/workerd/emqx.ts';
import { openSocket, type TestSocket } from '../rig/workerd/socket.ts';

const bridgeSecret = 'bridge-secret-of-the-worker-tests-only';
const withMosquitto = { ...env, BROKER_PROVISIONING: 'mosquitto' } as unknown as Env;
const contextOf = (of: Env) => createContext(of, readConfig(of));

type Row = { sealed_password: string | null; delivered_at: number | null; attempts: number; next_attempt_at: number };

async function outbox(): Promise<Row[]> {
  return (await env.DB.prepare('SELECT * FROM broker_outbox').all<Row>()).results;
}

/** As if the wait before the next attempt were over. */
async function skipWait(): Promise<void> {
  await env.DB.prepare('UPDATE broker_outbox SET next_attempt_at = 0, claimed_until = 0').run();
}

const device = { productKey: 'acme', deviceId: 'dev_01abcdef' };
const other = { productKey: 'acme', deviceId: 'dev_01abcdeg' };
let lastRequestAtMs = 0;
const provision = (of: Env, operation: BrokerOperation, to = device) =>
  provisionAtBroker(contextOf(of), to, operation, ++lastRequestAtMs);

beforeEach(async () => {
  await env.DB.prepare('DELETE FROM broker_outbox').run();
});

describe('mosquitto', () => {
  let bridge: TestSocket | undefined;
  type Command = { command: string } & Record<string, unknown>;

  async function dialIn(): Promise<TestSocket> {
    bridge = await openSocket(linkPath, { Authorization: `Bearer ${bridgeSecret}` });
    await bridge.ask({ type: 'hello', bridgeId: 'one', brokerConnected: true });
    return bridge;
  }

  /** The next list of commands; acknowledged as the broker would. */
  async function takeCommands(from: TestSocket, outcome: object = { type: 'published', hasSubscribers: true }) {
    const { id, topic, payload } = (await from.next()) as { id: string; topic: string; payload: string };
    expect(topic).toBe('$CONTROL/dynamic-security/v1');
    from.send({ ...outcome, id });
    return (JSON.parse(payload) as { commands: Command[] }).commands;
  }

  /** An operation that the broker refuses this time. */
  async function provisionRefused(from: TestSocket, operation: BrokerOperation, to = device): Promise<void> {
    const refused = takeCommands(from, { type: 'not-published', reason: 'refused' });
    await provision(withMosquitto, operation, to);
    await refused;
  }

  afterEach(async () => {
    bridge?.close();
    await bridge?.end();
    bridge = undefined;
  });

  const upsertOf = (password: string, { productKey, deviceId } = device) => {
    const name = `${productKey}&${deviceId}`;
    const own = `/sys/${productKey}/${deviceId}`;
    const send = (action: string) => ({ acltype: 'publishClientSend', topic: `${own}/${action}`, allow: true });
    return [
      {
        command: 'createRole',
        rolename: `device ${name}`,
        acls: [
          send('thing/event/property/post'),
          send('thing/service/property/set_reply'),
          send('status'),
          { acltype: 'subscribePattern', topic: `${own}/#`, allow: true },
        ],
      },
      { command: 'createClient', username: name, clientid: name, password, roles: [{ rolename: `device ${name}` }] },
      { command: 'setClientPassword', username: name, password },
      { command: 'enableClient', username: name },
    ];
  };
  const named = { username: 'acme&dev_01abcdef' };

  describe('over the interface', () => {
    let user: TestUser;

    async function call(method: string, path: string, body?: object) {
      const context = createExecutionContext();
      const headers = { Authorization: `Bearer ${user.token}` };
      const request = new Request(`https://latchwork.test/api/v1${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const response = await createApp().fetch(request, withMosquitto, context);
      const answer = await response.json<{ code: number; data: { deviceId: string; mqtt: { password: string } } }>();
      await waitOnExecutionContext(context);
      expect(answer.code).toBe(200);
      return answer.data;
    }

    beforeEach(async () => {
      user = await createUser();
    });

    it('tells the broker of an activation before it is answered, and of a deletion', async () => {
      await call('POST', '/products', { productKey: `p-${user.userId}`, name: 'Switch' });
      const connected = await dialIn();
      const commands = takeCommands(connected);
      const activated = call('POST', '/devices/activate', { productKey: `p-${user.userId}`, deviceSN: '1' });
      const identity = async () => ({ productKey: `p-${user.userId}`, deviceId: (await activated).deviceId });
      expect(await commands).toEqual(upsertOf((await activated).mqtt.password, await identity()));
      expect(await outbox()).toMatchObject([{ sealed_password: null, delivered_at: expect.any(Number) as number }]);

      const removal = takeCommands(connected);
      await call('DELETE', `/devices/${(await activated).deviceId}`);
      const name = `p-${user.userId}&${(await activated).deviceId}`;
      expect(await removal).toEqual([
        { command: 'deleteClient', username: name },
        { command: 'deleteRole', rolename: `device ${name}` },
      ]);
    });

    it('answers an activation although the broker is away, and keeps its password sealed until it is back', async () => {
      await call('POST', '/products', { productKey: `q-${user.userId}`, name: 'Switch' });
      const { deviceId, mqtt } = await call('POST', '/devices/activate', {
        productKey: `q-${user.userId}`,
        deviceSN: '1',
      });
      const findFailed = async () => (await outbox()).find(({ attempts }) => attempts === 1);
      const row = await vi.waitUntil(findFailed, { timeout: 10_000, interval: 50 });
      expect(row).toMatchObject({ delivered_at: null });
      expect(row.next_attempt_at).toBeGreaterThan(Date.now());
      expect(row.sealed_password).toMatch(/^[A-Za-z0-9+/=]{80,}$/);
      expect(JSON.stringify(row)).not.toContain(mqtt.password.slice(3, 20));

      const connected = await dialIn();
      await skipWait();
      const commands = takeCommands(connected);
      await deliverOutbox(contextOf(withMosquitto));
      expect(await commands).toEqual(upsertOf(mqtt.password, { productKey: `q-${user.userId}`, deviceId }));
      expect(await outbox()).toMatchObject([{ sealed_password: null, delivered_at: expect.any(Number) as number }]);
    });
  });

  it('disables, enables, and ends sessions', async () => {
    const connected = await dialIn();
    const take = async (operation: BrokerOperation, lists = 1) => {
      const taken = (async () => {
        const commands = [];
        while (commands.length < lists) commands.push(await takeCommands(connected));
        return commands;
      })();
      await provision(withMosquitto, operation);
      return taken;
    };
    const [disable, enable] = [
      { command: 'disableClient', ...named },
      { command: 'enableClient', ...named },
    ];
    expect(await take({ kind: 'disable' })).toEqual([[disable]]);
    expect(await take({ kind: 'upsert' })).toEqual([[enable]]);
    const rotated = await take({ kind: 'upsert', password: 'tk_new', endsSessions: true }, 2);
    expect(rotated).toEqual([upsertOf('tk_new'), [disable, enable]]);
  });

  it('delivers only the last of several operations, with the password of the one before', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
    await provisionRefused(connected, { kind: 'disable' });
    await skipWait();
    const taken = (async () => [await takeCommands(connected), await takeCommands(connected)])();
    await deliverOutbox(contextOf(withMosquitto));
    expect(await taken).toEqual([upsertOf('tk_first'), [{ command: 'disableClient', ...named }]]);
    expect(await connected.ask(linkPing)).toBe(linkPong);
  });

  it('forgets an undelivered password when the device is deleted', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
    await provisionRefused(connected, { kind: 'delete' });
    expect(await outbox()).toMatchObject([{ operation: 'delete', sealed_password: null }]);
  });

  it('lets the request win that began later, however late the other one ends', async () => {
    const connected = await dialIn();
    const first = takeCommands(connected);
    await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_later' }, 2_000_000);
    expect(await first).toEqual(upsertOf('tk_later'));
    await provisionAtBroker(contextOf(withMosquitto), device, { kind: 'upsert', password: 'tk_earlier' }, 1_999_999);
    expect(await connected.ask(linkPing), 'nothing is sent').toBe(linkPong);
  });

  it('delivers an operation that is requested during the delivery of another one after it', async () => {
    const connected = await dialIn();
    const first = provision(withMosquitto, { kind: 'upsert', password: 'tk_first' });
    const frame = (await connected.next()) as { id: string };
    await provision(withMosquitto, { kind: 'disable' });
    expect(await connected.ask(linkPing), 'it waits for the one under way').toBe(linkPong);
    connected.send({ type: 'published', id: frame.id, hasSubscribers: true });
    await takeCommands(connected);
    expect(await takeCommands(connected)).toEqual([{ command: 'disableClient', ...named }]);
    await first;
    await vi.waitFor(async () =>
      expect(await outbox()).toMatchObject([{ operation: 'disable', delivered_at: expect.any(Number) as number }]),
    );
  });

  it('delivers each entry once, however many deliver at the same time', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
    await skipWait();
    const commands = takeCommands(connected);
    await Promise.all([1, 2, 3].map(() => deliverOutbox(contextOf(withMosquitto))));
    expect(await commands).toEqual(upsertOf('tk_first'));
    expect(await connected.ask(linkPing)).toBe(linkPong);
  });

  it('stops at the first entry that finds the broker away, and waits longer each time', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'disable' });
    await provisionRefused(connected, { kind: 'disable' }, other);
    for (let round = 1; round <= 5; round++) {
      await skipWait();
      const refused = takeCommands(connected, { type: 'not-published', reason: 'refused' });
      await deliverOutbox(contextOf(withMosquitto));
      await refused;
      expect(await connected.ask(linkPing)).toBe(linkPong);
    }
    expect((await outbox()).reduce((total, { attempts }) => total + attempts, 0)).toBe(7);
  });

  it('opens what was sealed under the bridge secret before the present one', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
    const next = 'the-next-bridge-secret-of-the-worker-tests';
    const rotated = { ...withMosquitto, BRIDGE_SECRETS: `${next},${bridgeSecret}` };
    await skipWait();
    const commands = takeCommands(connected);
    await deliverOutbox(contextOf(rotated));
    expect(await commands).toEqual(upsertOf('tk_first'));
  });

  it('gives up a password that nothing opens any more, loudly, and carries on', async () => {
    const connected = await dialIn();
    await provisionRefused(connected, { kind: 'upsert', password: 'tk_first' });
    const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    await skipWait();
    await deliverOutbox(contextOf({ ...withMosquitto, BRIDGE_SECRETS: 'a-wholly-different-secret-of-the-tests' }));
    expect(await connected.ask(linkPing)).toBe(linkPong);
    expect(String(error.mock.calls[0]?.[0])).toContain('cannot be opened');
    error.mockRestore();
    expect(await outbox()).toMatchObject([{ sealed_password: null, delivered_at: expect.any(Number) as number }]);
  });

  it('removes delivered entries after an hour', async () => {
    const connected = await dialIn();
    const commands = takeCommands(connected);
    await provision(withMosquitto, { kind: 'disable' });
    await commands;
    await provisionRefused(connected, { kind: 'disable' }, other);
    await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now());
    expect(await outbox()).toHaveLength(2);
    await env.DB.prepare('UPDATE broker_outbox SET delivered_at = delivered_at - 3600001').run();
    await deleteExpiredRows(contextOf(withMosquitto).primary(), Date.now());
    expect(await outbox(), 'what was not delivered stays').toMatchObject([{ delivered_at: null }]);
  });
});

describe('EMQX', () => {
  type Exchange = { method: string; url: string; body: unknown; authorization: string | null };
  const exchanges: Exchange[] = [];
  let answers: (exchange: Exchange) => { status: number; body?: object };

  beforeEach(() => {
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
  afterEach(() => {
    vi.restoreAllMocks();
  });

  const api = 'https://emqx.test:8443/api/v5';
  const user = `${api}/authentication/password_based%3Abuilt_in_database/users`;
  const rule = `${api}/authorization/sources/built_in_database/rules/users`;
  const name = 'acme%26dev_01abcdef';
  const notFound = { status: 404, body: { code: 'NOT_FOUND', message: 'Not Found' } };
  const calls = () => exchanges.map(({ method, url }) => `${method} ${url}`);

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
      `DELETE ${api}/banned/username/${name}`,
    ]);
    expect(exchanges[0]?.body).toEqual({
      username: 'acme&dev_01abcdef',
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
    expect(await outbox()).toMatchObject([{ sealed_password: null, delivered_at: expect.any(Number) as number }]);
  });

  it('changes a user that is there, and ends its sessions where that is asked', async () => {
    answers = ({ url }) => (url.startsWith(user) ? { status: 200, body: { user_id: 'x' } } : { status: 204 });
    await provision(withEmqx, { kind: 'upsert', password: 'tk_next', endsSessions: true });
    expect(calls()).toEqual([
      `PUT ${rule}/${name}`,
      `PUT ${user}/${name}`,
      `DELETE ${api}/banned/username/${name}`,
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
      `DELETE ${api}/banned/username/${name}`,
    ]);
    expect(exchanges[0]?.body).toEqual({
      as: 'username',
      who: 'acme&dev_01abcdef',
      by: 'latchwork',
      reason: 'device disabled',
      until: '2999-12-31T23:59:59Z',
    });
  });

  // The old ban is EMQX's message, as text.
  const oldBan = '{"as":"username","who":"acme&dev_01abcdef","until":"2999-12-31T23:59:59+00:00"}';
  const bannedAlready = { status: 400, body: { code: 'ALREADY_EXISTS', message: oldBan } };
  const notTaken = { status: 400, body: { code: 'BAD_REQUEST', message: 'banned time is in the past' } };

  it('takes a device that is banned already for banned', async () => {
    answers = ({ method }) => (method === 'POST' ? bannedAlready : { status: 204 });
    await provision(withEmqx, { kind: 'disable' });
    expect(calls()).toEqual([`POST ${api}/banned`, `DELETE ${api}/clients/${name}`]);
    expect(await outbox()).toMatchObject([{ delivered_at: expect.any(Number) as number }]);
  });

  it.each([
    ['is refused', notTaken],
    ['is answered with nothing that EMQX says', { status: 400 }],
  ])('keeps trying a ban that %s', async (_, refusal) => {
    answers = ({ method }) => (method === 'POST' ? refusal : { status: 204 });
    await provision(withEmqx, { kind: 'disable' });
    expect(await outbox()).toMatchObject([{ delivered_at: null, attempts: 1 }]);
    answers = ({ method }) => (method === 'POST' ? { status: 200, body: {} } : { status: 204 });
    await skipWait();
    await deliverOutbox(contextOf(withEmqx));
    expect(await outbox()).toMatchObject([{ delivered_at: expect.any(Number) as number }]);
  });

  it('removes user, rules, ban and sessions, whatever of them is there', async () => {
    answers = () => notFound;
    await provision(withEmqx, { kind: 'delete' });
    expect(calls()).toEqual([
      `DELETE ${user}/${name}`,
      `DELETE ${rule}/${name}`,
      `DELETE ${api}/banned/username/${name}`,
      `DELETE ${api}/clients/${name}`,
    ]);
    expect(await outbox()).toMatchObject([{ delivered_at: expect.any(Number) as number }]);
  });

  it.each([500, 503, 401, 429])('does not try the other entries while the API answers %d', async (status) => {
    answers = () => ({ status });
    await provision(withEmqx, { kind: 'disable' });
    await provision(withEmqx, { kind: 'disable' }, other);
    exchanges.length = 0;
    await skipWait();
    await deliverOutbox(contextOf(withEmqx));
    expect(exchanges).toHaveLength(1);
    answers = ({ method }) => (method === 'DELETE' ? { status: 204 } : { status: 200, body: {} });
    await skipWait();
    await deliverOutbox(contextOf(withEmqx));
    expect((await outbox()).every(({ delivered_at: deliveredAt }) => deliveredAt !== null)).toBe(true);
  });

  it('is not held up by one entry that the API refuses for ever', async () => {
    answers = () => ({ status: 500 });
    await provision(withEmqx, { kind: 'disable' });
    await provision(withEmqx, { kind: 'disable' }, other);
    answers = ({ method, body }) => {
      if (method === 'DELETE') return { status: 204 };
      return (body as { who: string }).who === 'acme&dev_01abcdef' ? { status: 409 } : { status: 200, body: {} };
    };
    await skipWait();
    await deliverOutbox(contextOf(withEmqx));
    const rows = await outbox();
    expect(rows.filter(({ delivered_at: deliveredAt }) => deliveredAt === null)).toMatchObject([{ attempts: 2 }]);
    expect(rows).toHaveLength(2);
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
});

it('does nothing where the broker has a login hook', async () => {
  await provision(env, { kind: 'upsert', password: 'tk_first' });
  expect(await outbox()).toEqual([]);
});

it('refuses a configuration that names EMQX without its API', () => {
  expect(() => readConfig({ ...env, BROKER_PROVISIONING: 'emqx' } as unknown as Env)).toThrow(
    'BROKER_PROVISIONING emqx needs BROKER_API_URL, BROKER_API_KEY and BROKER_API_SECRET',
  );
});
