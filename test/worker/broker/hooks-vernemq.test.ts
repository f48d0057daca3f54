// VerneMQ's webhooks, MQTT 3 and 5: requests as its source makes them, the answers byte by byte. Read in
// github.com/vernemq/vernemq at the tags 1.10.0, 2.1.2 and 2.2.0:
// - apps/vmq_webhooks/src/vmq_webhooks_plugin.erl: members of the requests, statuses, `max-age`, `no_payload`
// - apps/vmq_webhooks/src/vmq_webhooks_cache.erl: the key of the cache, which is never emptied but by a lookup
// - apps/vmq_plugin/src/vmq_plugin_util.erl (2.1.2): QoS 128 becomes `not_allowed` for MQTT 3 alone; MQTT 5 keeps 135
// - apps/vmq_server/src/vmq_mqtt5_fsm.erl, vmq_reg.erl: up to 2.1.2 `add_subscriber` takes any integer for a QoS, so a
//   filter answered with 135 is subscribed; 2.2.0 takes it out first
import { describe, expect, it } from 'vitest';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, type TestDevice, statusOf } from '../rig/provision.ts';

const path = (hook: string) => `vernemq/s/${hookSecret}/${hook}`;
const ask = (hook: string, body: unknown) =>
  callHook(path(hook), JSON.stringify(body), { 'Content-Type': 'application/json', 'vernemq-hook': hook });
const answer = (body: string) => ({ status: 200, type: 'application/json', body });
const ok = answer('{"result":"ok"}');
const refused = answer('{"result":{"error":"not_allowed"}}');

const peer = { peer_addr: '203.0.113.9', peer_port: 49_152, mountpoint: '' };
const own = '/sys/acme/dev_01abcdef';
const username = 'acme&dev_01abcdef';

describe.each(['', '_m5'])('auth_on_register%s', (version) => {
  const hook = `auth_on_register${version}`;
  const extra = version === '' ? { clean_session: true } : { clean_start: true, properties: {} };
  const loginOf = ({ name, password }: TestDevice) => ({
    ...peer,
    username: name,
    password,
    client_id: name,
    ...extra,
  });

  it('allows a device and the bridge', async () => {
    const device = await provisionDevice();
    expect(await ask(hook, loginOf(device))).toEqual(ok);
    const bridge = {
      ...loginOf(device),
      client_id: 'latchwork-bridge',
      username: 'latchwork-bridge',
      password: 'bridge-mqtt-password-of-the-worker-tests',
    };
    expect(await ask(hook, bridge)).toEqual(ok);
  });

  it('refuses everybody else', async () => {
    const login = loginOf(await provisionDevice());
    for (const change of [{ password: 'tk_wrong' }, { client_id: 'x' }, { username: null }, { password: null }]) {
      expect(await ask(hook, { ...login, ...change })).toEqual(refused);
    }
    expect(await callHook(path(hook), '{', {})).toEqual(refused);
  });
});

describe.each(['', '_m5'])('auth_on_publish%s', (version) => {
  const publish = (topic: string, retain = false) =>
    ask(`auth_on_publish${version}`, {
      username,
      client_id: username,
      mountpoint: '',
      qos: 1,
      topic,
      payload: 'aGVsbG8=',
      retain,
      ...(version === '' ? {} : { properties: {} }),
    });

  it('allows what a device may say', async () => {
    expect(await publish(`${own}/thing/event/property/post`)).toEqual(ok);
    expect(await publish(`${own}/status`, true)).toEqual(ok);
  });

  it('refuses the rest', async () => {
    expect(await publish(`${own}/thing/event/property/post`, true)).toEqual(refused);
    expect(await publish(`${own}/thing/service/property/set`)).toEqual(refused);
    expect(await publish('/sys/acme/dev_01abcdeg/status')).toEqual(refused);
  });
});

describe.each(['', '_m5'])('auth_on_subscribe%s', (version) => {
  const subscribe = (...topics: string[]) =>
    ask(`auth_on_subscribe${version}`, {
      client_id: username,
      mountpoint: '',
      username,
      topics: topics.map((topic) => ({ topic, qos: 1 })),
      ...(version === '' ? {} : { properties: {} }),
    });

  it('allows what is all inside the device', async () => {
    expect(await subscribe(`${own}/#`, `${own}/thing/service/property/set`)).toEqual(ok);
  });

  it('refuses a subscription of which nothing is left', async () => {
    expect(await subscribe('/sys/#', '$share/g/x')).toEqual(refused);
  });
});

describe('a subscription to an own filter and a foreign one', () => {
  const body = {
    client_id: username,
    mountpoint: '',
    username,
    topics: [
      { topic: `${own}/#`, qos: 1 },
      { topic: '/sys/#', qos: 1 },
    ],
  };

  it('gets the own one with MQTT 3', async () => {
    const topics = `"topics":[{"topic":"${own}/#","qos":1},{"topic":"/sys/#","qos":128}]`;
    expect(await ask('auth_on_subscribe', body)).toEqual(answer(`{"result":"ok",${topics}}`));
  });

  it('gets neither with MQTT 5, where VerneMQ would subscribe both', async () => {
    expect(await ask('auth_on_subscribe_m5', { ...body, properties: {} })).toEqual(refused);
  });
});

describe('sessions', () => {
  it.each(['on_client_gone', 'on_client_offline'])('begin with on_client_wakeup and end with %s', async (end) => {
    const device = await provisionDevice();
    const session = { client_id: device.name, mountpoint: '' };
    expect(await ask('on_client_wakeup', session)).toEqual(answer('{}'));
    expect((await statusOf(device)).online).toBe(true);
    expect(await ask(end, session)).toEqual(answer('{}'));
    expect((await statusOf(device)).online).toBe(false);
  });

  it('of strangers are acknowledged and left at that', async () => {
    expect(await ask('on_client_wakeup', { client_id: 'latchwork-bridge', mountpoint: '' })).toEqual(answer('{}'));
    expect(await ask('on_client_gone', {})).toEqual(answer('{}'));
  });
});

it('lets VerneMQ remember only what has a bounded number of keys', async () => {
  const { exports } = await import('cloudflare:workers');
  const cacheControlOf = async (hook: string, body: unknown) => {
    const request = new Request(`https://latchwork.test/hooks/${path(hook)}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    return (await exports.default.fetch(request)).headers.get('Cache-Control');
  };
  const device = await provisionDevice();
  const login = { client_id: device.name, username: device.name, password: device.password };
  expect(await cacheControlOf('auth_on_register', login)).toBe('no-store');
  expect(await cacheControlOf('auth_on_publish', { username, topic: `${own}/status`, retain: false })).toBe(
    'max-age=600',
  );
  expect(await cacheControlOf('auth_on_publish', { username, topic: 'x', retain: false })).toBe('no-store');
  const made = { username, topic: `${own}/status`, retain: false, properties: { p_user_property: [{ key: 'a' }] } };
  expect(await cacheControlOf('auth_on_publish_m5', made)).toBe('no-store');
  const subscription = { username, topics: [{ topic: `${own}/made/up`, qos: 0 }] };
  for (const hook of ['auth_on_subscribe', 'auth_on_subscribe_m5']) {
    expect(await cacheControlOf(hook, subscription)).toBe('no-store');
  }
});
