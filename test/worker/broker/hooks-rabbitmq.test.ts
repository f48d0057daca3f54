// RabbitMQ's HTTP authorization backend: requests as RabbitMQ 3.10.8 with rabbitmq_mqtt sends them (recorded), answers
// byte by byte. Also read in github.com/rabbitmq/rabbitmq-server at v3.10.8, v3.13.7 and v4.0.5:
// deps/rabbitmq_auth_backend_http/src/rabbit_auth_backend_http.erl (members, `Host` header, `ssl_options`) and its schema,
// deps/rabbitmq_mqtt/src/rabbit_mqtt_util.erl (names of queues). What all vendors share is in hooks-vendors.test.
import { describe, expect, it } from 'vitest';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, type TestDevice } from '../rig/provision.ts';

const path = (hook: string) => `rabbitmq/s/${hookSecret}/${hook}`;
const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
const ask = (hook: string, body: string) => callHook(path(hook), body, form);

const allow = { status: 200, type: 'text/plain; charset=UTF-8', body: 'allow' };
const deny = { ...allow, body: 'deny' };

const name = 'acme%26dev_01abcdef';
const variables = `variable_map.client_id=${name}&variable_map.username=${name}&variable_map.vhost=%2F`;
const resource = (kind: string, of: string, permission: string, username = name) =>
  `username=${username}&vhost=%2F&resource=${kind}&name=${of}&permission=${permission}&tags=&client_id=${username}`;
const topic = (permission: string, routingKey: string) =>
  `username=${name}&vhost=%2F&resource=topic&name=amq.topic&permission=${permission}&tags=` +
  `&routing_key=${routingKey}&${variables}`;

describe('the user path', () => {
  const encode = ({ name: own, password }: TestDevice) =>
    `username=${encodeURIComponent(own)}&password=${password}&vhost=%2F&client_id=${encodeURIComponent(own)}`;

  it('allows a device without any tag, also by a query, the default method of the broker', async () => {
    const login = encode(await provisionDevice());
    expect(await ask('user', login)).toEqual(allow);
    expect(await callHook(`${path('user')}?${login}`, '', {}, 'GET')).toEqual(allow);
  });

  it('refuses a login that is not MQTT, and rubbish', async () => {
    const login = encode(await provisionDevice());
    const notMqtt = login.replace(/&vhost.*/, '');
    for (const body of [notMqtt, login.replace('tk_', 'tk_x'), 'username=guest&password=guest', '', '%%%']) {
      expect(await ask('user', body), body).toEqual(deny);
    }
  });
});

it('the vhost path allows names of devices and the bridge, and no others', async () => {
  expect(await ask('vhost', `username=${name}&vhost=%2F&ip=127.0.0.1&tags=&client_id=${name}`)).toEqual(allow);
  expect(await ask('vhost', 'username=latchwork-bridge&vhost=%2F&ip=127.0.0.1&tags=')).toEqual(allow);
  expect(await ask('vhost', 'username=guest&vhost=%2F&ip=127.0.0.1&tags=administrator')).toEqual(deny);
});

describe('the resource path', () => {
  it.each([
    ['queue', `mqtt-subscription-${name}qos1`, 'configure'],
    ['queue', `mqtt-subscription-${name}qos1`, 'write'],
    ['queue', `mqtt-subscription-${name}qos1`, 'read'],
    ['queue', `mqtt-subscription-${name}qos0`, 'configure'],
    ['queue', `mqtt-will-${name}`, 'configure'],
    ['exchange', 'amq.topic', 'read'],
    ['exchange', 'amq.topic', 'write'],
  ])('allows the %s %s: %s', async (kind, of, permission) => {
    expect(await ask('resource', resource(kind, of, permission))).toEqual(allow);
  });

  it.each([
    ['queue', 'mqtt-subscription-acme%26dev_01abcdegqos1', 'read'],
    ['queue', 'mqtt-subscription-latchwork-bridgeqos1', 'read'],
    ['queue', 'orders', 'read'],
    ['exchange', 'amq.topic', 'configure'],
    ['exchange', 'amq.default', 'write'],
    ['exchange', '', 'write'],
    ['topic', 'amq.topic', 'write'],
  ])('refuses the %s %s: %s', async (kind, of, permission) => {
    expect(await ask('resource', resource(kind, of, permission))).toEqual(deny);
  });

  it('gives the bridge the queues of its client id, and no device those', async () => {
    const queue = 'mqtt-subscription-latchwork-bridge-0123456789abcdefqos1';
    expect(await ask('resource', resource('queue', queue, 'read', 'latchwork-bridge'))).toEqual(allow);
    expect(await ask('resource', resource('queue', queue, 'read'))).toEqual(deny);
    const ofDevice = `mqtt-subscription-${name}qos1`;
    expect(await ask('resource', resource('queue', ofDevice, 'read', 'latchwork-bridge'))).toEqual(deny);
  });

  it('refuses everything to a name that cannot have logged in', async () => {
    expect(await ask('resource', resource('exchange', 'amq.topic', 'write', 'guest'))).toEqual(deny);
    expect(await ask('resource', resource('queue', 'mqtt-subscription-guestqos1', 'read', 'guest'))).toEqual(deny);
  });
});

describe('the topic path', () => {
  it.each([
    ['write', '.sys.acme.x.a%2Ab.%252F.%C3%BC'],
    ['write', '/sys/acme/dev_01abcdef/status'],
    ['write', '.sys.acme.dev_01abcdef/status'],
    ['read', '.sys.%2A.dev.x.a%2Ab.c~d.%5Be%5D'],
    ['read', '.sys.acme.dev_01abcdef.%23.status'],
    ['delete', '.sys.acme.dev_01abcdef.status'],
  ])('refuses a device to %s %s', async (permission, routingKey) => {
    expect(await ask('topic', topic(permission, routingKey))).toEqual(deny);
  });

  it('knows the one exchange of the MQTT plugin', async () => {
    const elsewhere = topic('write', '.sys.acme.dev_01abcdef.status').replace('amq.topic', 'other');
    expect(await ask('topic', elsewhere)).toEqual(deny);
  });
});
