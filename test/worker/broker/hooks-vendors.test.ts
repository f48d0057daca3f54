// Logins and topics at the hooks of every broker: the same policy (its own test is topic-rights.test), asked for as each vendor
// asks, with the answers that it reads, byte by byte, and what the log says. What a vendor alone has is in its own file.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { callHook, captureLog, type HookAnswer, hookSecret } from '../rig/clients/hooks.ts';
import { eventsOf, provisionDevice, type TestDevice } from '../rig/provision.ts';

type Login = Partial<Record<'clientId' | 'username' | 'password', string | null | undefined>>;
type Use = { action: 'publish' | 'subscribe'; topic: string; isRetained?: boolean };
type Question = [hook: string, body: object];
type Vendor = {
  name: string;
  askLogin: (login: Login) => Question;
  askTopic: (use: Use, username: string) => Question;
  allowed: HookAnswer;
  /** Some answers hold a message. */
  refused: (message: string) => HookAnswer;
  /** If they differ from those about topics. */
  loginAnswers?: Pick<Vendor, 'allowed' | 'refused'>;
};

const answer = (body: string, status = 200, type = 'application/json'): HookAnswer => ({ status, type, body });
const text = (body: string) => answer(body, 200, 'text/plain; charset=UTF-8');

const emqx: Vendor = {
  name: 'EMQX',
  askLogin: ({ clientId, ...login }) => ['emqx/connect', { ...login, clientid: clientId, peerhost: '203.0.113.9' }],
  askTopic: ({ isRetained = false, ...use }, username) => ['emqx/authz', { ...use, username, retain: `${isRetained}` }],
  allowed: answer('{"result":"allow"}'),
  refused: () => answer('{"result":"deny"}'),
  loginAnswers: {
    // Its rights are in hooks-emqx.test.
    allowed: answer(expect.stringContaining('{"result":"allow","is_superuser":false,"acl":[{') as string),
    // EMQX ignores any status but 200.
    refused: (message) => answer(`{"result":"deny","is_superuser":false,"message":"${message}"}`),
  },
};

const rabbitmq: Vendor = {
  name: 'RabbitMQ',
  askLogin: ({ clientId, ...login }) => ['rabbitmq/user', { ...login, vhost: '/', client_id: clientId }],
  askTopic: ({ action, topic }, username) => {
    const permission = action === 'publish' ? 'write' : 'read';
    const routingKey = topic.replaceAll('/', '.').replaceAll('+', '*');
    return ['rabbitmq/topic', { username, name: 'amq.topic', permission, routing_key: routingKey }];
  },
  allowed: text('allow'),
  refused: () => text('deny'),
};

const bridge = 'latchwork-bridge';
const bridgeLogin = { clientId: bridge, username: bridge, password: 'bridge-mqtt-password-of-the-worker-tests' };

/** What a hook answers, and what the log says. */
async function ask(hook: string, body: string) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${hookSecret}` };
  let answered: HookAnswer | undefined;
  const log = await captureLog(async () => (answered = await callHook(hook, body, headers)));
  return { answered, ...log };
}

describe.each([emqx, rabbitmq])('a login at $name', ({ askLogin, loginAnswers, ...answers }) => {
  const { allowed, refused } = loginAnswers ?? answers;
  let device: TestDevice;
  let right: Login;
  beforeAll(async () => {
    device = await provisionDevice();
    right = { clientId: device.name, username: device.name, password: device.password };
  });

  function logIn(login: Login) {
    const [hook, body] = askLogin(login);
    return ask(hook, JSON.stringify(body));
  }

  it('is allowed to a device, and to the bridge under a client id of its own', async () => {
    for (const login of [right, bridgeLogin, { ...bridgeLogin, clientId: `${bridge}-0123456789abcdef` }]) {
      expect(await logIn(login)).toMatchObject({ answered: allowed, refusals: [undefined] });
    }
  });

  const deviceId = expect.stringMatching(/^dev_/) as string;
  const wrongPassword = {
    kind: 'credential_refused',
    ...{ credential: 'messaging_password', problem: 'wrong', deviceId },
  };
  const wrongClientId = { kind: 'wrong_client_id' };
  const unreadable = (path: string) => ({ kind: 'invalid_input', path });

  it.each<[string, Login, string, object]>([
    ['a wrong password', { password: 'tk_wrong' }, 'invalid_password', wrongPassword],
    ['an empty password', { password: '' }, 'invalid_password', wrongPassword],
    ['the device secret', { password: 'sk_of-the-device' }, 'invalid_password', wrongPassword],
    ['another client id', { clientId: 'esp32-17' }, 'invalid_client_id', { ...wrongClientId, deviceId }],
    ['no client id', { clientId: '' }, 'invalid_client_id', { ...wrongClientId, deviceId }],
    ["the bridge's client id", { clientId: bridge }, 'invalid_client_id', { ...wrongClientId, deviceId }],
    ['an unknown device', { username: 'switch&dev_00000000' }, 'invalid_password', wrongPassword],
    ['an internal name', { username: 'admin' }, 'device_not_found', { kind: 'not_found', what: 'device', id: 'admin' }],
    ['null for a username', { username: null }, 'invalid_password', unreadable('username')],
    ['null for a password', { password: null }, 'invalid_password', unreadable('password')],
    ['no password', { password: undefined }, 'invalid_password', unreadable('password')],
    ['a name of a megabyte', { username: 'x'.repeat(1_000_000) }, 'invalid_password', { kind: 'invalid_input' }],
    ['the bridge by a wrong password', { ...bridgeLogin, password: 'tk_wrong' }, 'invalid_password', {}],
    ['the bridge as a device', { ...bridgeLogin, clientId: 'a&dev_01abcdef' }, 'invalid_client_id', wrongClientId],
    ['the bridge as another', { ...bridgeLogin, clientId: `${bridge}s` }, 'invalid_client_id', wrongClientId],
    ['the bridge without a number', { ...bridgeLogin, clientId: `${bridge}-` }, 'invalid_client_id', wrongClientId],
  ])('is refused: %s. The log has the reason and no password', async (_, change, message, refusal) => {
    const { answered, refusals, text } = await logIn({ ...right, ...change });
    expect({ answered, refusals }).toMatchObject({ answered: refused(message), refusals: [refusal] });
    for (const secret of ['tk_', 'sk_', device.password, bridgeLogin.password]) expect(text).not.toContain(secret);
  });

  it('is refused where it is no JSON', async () => {
    const [hook] = askLogin({});
    expect(await ask(hook, 'nonsense')).toMatchObject({ answered: refused('invalid_password') });
  });
});

const device = 'acme&dev_01abcdef';
const own = '/sys/acme/dev_01abcdef';
const foreign = '/sys/acme/dev_01abcdeg';

async function askFor({ askTopic }: Vendor, username: string, use: Use) {
  const [hook, body] = askTopic(use, username);
  const { answered, refusals } = await ask(hook, JSON.stringify(body));
  return { answered, refusals };
}

describe.each([emqx, rabbitmq])('a topic at $name', (vendor) => {
  it.each<[string, Use['action'], string]>([
    [device, 'publish', `${own}/thing/event/property/post`],
    [device, 'publish', `${own}/thing/service/property/set_reply`],
    [device, 'publish', `${own}/status`],
    [device, 'publish', `${own}/thing/ota/get`],
    [device, 'subscribe', `${own}/#`],
    [device, 'subscribe', `${own}/+/service/#`],
    [bridge, 'publish', `${own}/thing/service/property/set`],
    [bridge, 'publish', `${own}/thing/ota/data`],
    [bridge, 'subscribe', '/sys/+/+/thing/event/property/post'],
  ])('is allowed: %s may %s %s', async (username, action, topic) => {
    expect(await askFor(vendor, username, { action, topic })).toEqual({
      answered: vendor.allowed,
      refusals: [undefined],
    });
  });

  it.each<[string, Use['action'], string]>([
    [device, 'publish', `${own}/thing/service/property/set`],
    [device, 'publish', `${own}/thing/ota/upgrade`],
    [device, 'publish', `${foreign}/status`],
    [device, 'subscribe', `${foreign}/status`],
    [device, 'subscribe', '/sys/acme/+/#'],
    [device, 'subscribe', '$SYS/#'],
    [device, 'subscribe', `$share/g/${own}/status`],
    [bridge, 'publish', `${own}/other`],
    [bridge, 'subscribe', '/sys/#'],
    ['admin', 'subscribe', '/sys/+/+/status'],
  ])('is refused, and the log says so: %s may not %s %s', async (username, action, topic) => {
    const refusals = [{ kind: 'topic_forbidden', action, topic }];
    const answered = vendor.refused('forbidden');
    expect(await askFor(vendor, username, { action, topic })).toEqual({ answered, refusals });
  });
});

it.each([emqx, rabbitmq])('a publish that $name is told to drop is an event of its device', async (vendor) => {
  const published = await provisionDevice();
  const { name } = published;
  const root = `/sys/${name.replace('&', '/')}`;
  const [wrong, retained] = [`${root}/other`, `${root}/thing/event/property/post`];
  await askFor(vendor, name, { action: 'publish', topic: wrong });
  await askFor(vendor, name, { action: 'subscribe', topic: wrong });
  const { answered } = await askFor(vendor, name, { action: 'publish', topic: retained, isRetained: true });
  // RabbitMQ does not say what is retained.
  const tellsRetained = answered?.body !== vendor.allowed.body;
  await vi.waitFor(async () => {
    const list = (await eventsOf(published)).filter(({ status }) => status === 'message_rejected');
    expect(list.reverse()).toMatchObject([
      { reason: 'wrong_topic', detail: wrong, count: 1 },
      ...(tellsRetained ? [{ reason: 'retained', detail: retained, count: 1 }] : []),
    ]);
  });
});

it('a retained message at EMQX is for `status` alone', async () => {
  const retained = (rest: string): Use => ({ action: 'publish', topic: `${own}/${rest}`, isRetained: true });
  expect((await askFor(emqx, device, retained('status'))).answered).toEqual(emqx.allowed);
  const report = await askFor(emqx, device, retained('thing/event/property/post'));
  expect(report.answered).toEqual(emqx.refused('forbidden'));
});
