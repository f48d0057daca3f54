// VerneMQ's webhooks, MQTT 3 and 5: requests as its source makes them, the answers byte by byte. What all
// vendors share is in hooks-vendors.test. Read in
// github.com/vernemq/vernemq at the tags 1.10.0, 2.1.2 and 2.2.0:
// - apps/vmq_webhooks/src/vmq_webhooks_plugin.erl: members of the requests, statuses, `max-age`, `no_payload`
// - apps/vmq_webhooks/src/vmq_webhooks_cache.erl: the key of the cache, which is never emptied but by a lookup
// - apps/vmq_plugin/src/vmq_plugin_util.erl (2.1.2): QoS 128 becomes `not_allowed` for MQTT 3 alone; MQTT 5 keeps 135
// - apps/vmq_server/src/vmq_mqtt5_fsm.erl, vmq_reg.erl: up to 2.1.2 `add_subscriber` takes any integer for a QoS, so a
//   filter answered with 135 is subscribed; 2.2.0 takes it out first
import { describe, expect, it } from 'vitest';
import { send } from '../rig/clients/client.ts';
import { callHook, captureLog, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, statusOf } from '../rig/provision.ts';

const path = (hook: string) => `vernemq/s/${hookSecret}/${hook}`;
const ask = (hook: string, body: unknown) =>
  callHook(path(hook), JSON.stringify(body), { 'Content-Type': 'application/json', 'vernemq-hook': hook });
const answer = (body: string) => ({ status: 200, type: 'application/json', body });

const own = '/sys/acme/dev_01abcdef';
const username = 'acme&dev_01abcdef';

describe('a subscription to an own filter and foreign ones', () => {
  const topics = [`${own}/#`, '/sys/#', '#'].map((topic) => ({ topic, qos: 1 }));
  const body = { client_id: username, mountpoint: '', username, topics };

  it('gets the own one with MQTT 3, and each of the others is in the log of the request', async () => {
    const granted = `{"topic":"${own}/#","qos":1},{"topic":"/sys/#","qos":128},{"topic":"#","qos":128}`;
    const { refusals, requestIds } = await captureLog(async () => {
      expect(await ask('auth_on_subscribe', body)).toEqual(answer(`{"result":"ok","topics":[${granted}]}`));
    });
    expect(refusals).toEqual(['#', '/sys/#'].map((topic) => ({ kind: 'topic_forbidden', action: 'subscribe', topic })));
    expect(requestIds.size).toBe(1);
  });

  it('gets none with MQTT 5, where VerneMQ would subscribe all', async () => {
    const refused = answer('{"result":{"error":"not_allowed"}}');
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
  const cacheControlOf = async (hook: string, body: unknown) =>
    (await send('POST', `/hooks/${path(hook)}`, { body })).headers.get('Cache-Control');
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
