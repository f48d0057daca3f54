// EMQX 5's HTTP authenticator, HTTP authorizer and client events: the requests that broker-bridge/examples configures, the
// answers byte by byte. What all vendors share is in hooks-vendors.test. Read in github.com/emqx/emqx:
// - apps/emqx_auth_http/src/emqx_authn_http.erl (v5.4.1, v5.8.9): any status but 200 and 204 is "ignore"; https without
//   `ssl.enable` is refused; `acl` of the answer is read in v5.7.2 and v5.8.9, not in v5.7.0
// - apps/emqx_auth_http/src/emqx_authz_http.erl (v5.4.1, v5.8.9): any status but 200 and 204 is "no match"
// - apps/emqx/src/emqx_channel.erl (v5.7.2): with `deny_action = ignore` a publish that is not allowed is acknowledged
// - apps/emqx_bridge_http/src/emqx_bridge_http_connector.erl (v5.4.1, v5.7.0, v5.8.9): an event is sent again after 429,
//   from v5.7.0 on also after 503, and dropped after any other failure
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, type TestDevice, statusOf } from '../rig/provision.ts';

const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${hookSecret}` };
const ask = (hook: string, body: unknown) =>
  callHook(`emqx/${hook}`, typeof body === 'string' ? body : JSON.stringify(body), headers);

/** The body that broker-bridge/examples configures, with what EMQX fills in. */
const loginOf = (device: TestDevice) => ({
  clientid: device.name,
  username: device.name,
  password: device.password,
  peerhost: '203.0.113.9',
});

describe('the connect hook', () => {
  it('allows a device with exactly its rights', async () => {
    const device = await provisionDevice();
    const own = `/sys/switch/${device.deviceId}`;
    expect(await ask('connect', loginOf(device))).toEqual({
      status: 200,
      type: 'application/json',
      body:
        '{"result":"allow","is_superuser":false,"acl":[' +
        `{"permission":"allow","action":"publish","topic":"eq ${own}/thing/event/property/post","retain":false},` +
        `{"permission":"allow","action":"publish","topic":"eq ${own}/thing/service/property/set_reply","retain":false},` +
        `{"permission":"allow","action":"publish","topic":"eq ${own}/status"},` +
        ['inform', 'progress', 'get']
          .map(
            (name) => `{"permission":"allow","action":"publish","topic":"eq ${own}/thing/ota/${name}","retain":false},`,
          )
          .join('') +
        `{"permission":"allow","action":"subscribe","topic":"${own}/#"},` +
        '{"permission":"deny","action":"all","topic":"#"}]}',
    });
  });

  it('allows the bridge with one of the bridge secrets', async () => {
    const login = {
      clientid: 'latchwork-bridge',
      username: 'latchwork-bridge',
      password: 'bridge-mqtt-password-of-the-worker-tests',
    };
    expect(await ask('connect', login)).toEqual({
      status: 200,
      type: 'application/json',
      body:
        '{"result":"allow","is_superuser":false,"acl":[' +
        '{"permission":"allow","action":"subscribe","topic":"eq /sys/+/+/thing/event/property/post"},' +
        '{"permission":"allow","action":"subscribe","topic":"eq /sys/+/+/thing/service/property/set_reply"},' +
        '{"permission":"allow","action":"subscribe","topic":"eq /sys/+/+/status"},' +
        ['inform', 'progress', 'get']
          .map((name) => `{"permission":"allow","action":"subscribe","topic":"eq /sys/+/+/thing/ota/${name}"},`)
          .join('') +
        '{"permission":"allow","action":"publish","topic":"/sys/+/+/thing/service/property/set","retain":false},' +
        '{"permission":"allow","action":"publish","topic":"/sys/+/+/status","retain":false},' +
        '{"permission":"allow","action":"publish","topic":"/sys/+/+/thing/ota/upgrade","retain":false},' +
        '{"permission":"allow","action":"publish","topic":"/sys/+/+/thing/ota/data","retain":false},' +
        '{"permission":"deny","action":"all","topic":"#"}]}',
    });
  });

  it('does not count a login as a session: this broker reports those', async () => {
    const device = await provisionDevice();
    await ask('connect', loginOf(device));
    expect((await statusOf(device)).online).toBe(false);
  });
});

describe('the authorization hook of versions before 5.8', () => {
  const allow = { status: 200, type: 'application/json', body: '{"result":"allow"}' };
  const deny = { ...allow, body: '{"result":"deny"}' };
  const own = '/sys/acme/dev_01abcdef';

  it.each<[object, typeof allow]>([
    [{}, allow],
    [{ retain: '${retain}' }, allow],
    [{ retain: 'undefined' }, allow],
    [{ retain: true }, deny],
    [{ retain: '1' }, deny],
    [{ action: 'all' }, deny],
    [{ topic: undefined }, deny],
  ])('answers a report with %j', async (change, answer) => {
    const report = { username: 'acme&dev_01abcdef', action: 'publish', topic: `${own}/thing/event/property/post` };
    expect(await ask('authz', { ...report, ...change })).toEqual(answer);
  });

  it('refuses what is no JSON', async () => {
    expect(await ask('authz', 'nonsense')).toEqual(deny);
  });
});

describe('client events', () => {
  const noContent = { status: 204, type: null, body: '' };

  // What the rule `SELECT * FROM "$events/client_connected", "$events/client_disconnected"` hands on.
  const connectedOf = ({ name }: TestDevice, connectedAtMs: number) => ({
    event: 'client.connected',
    clientid: name,
    username: name,
    mountpoint: 'undefined',
    peername: '203.0.113.9:49152',
    sockname: '10.0.0.4:1883',
    proto_name: 'MQTT',
    proto_ver: 4,
    keepalive: 60,
    clean_start: true,
    expiry_interval: 0,
    is_bridge: false,
    connected_at: connectedAtMs,
    conn_props: { 'User-Property': {} },
    timestamp: connectedAtMs + 1,
    node: 'emqx@127.0.0.1',
    metadata: { rule_id: 'presence' },
  });
  const disconnectedOf = ({ name }: TestDevice, disconnectedAtMs: number, reason = 'normal') => ({
    event: 'client.disconnected',
    reason,
    clientid: name,
    username: name,
    peername: '203.0.113.9:49152',
    sockname: '10.0.0.4:1883',
    disconnected_at: disconnectedAtMs,
    disconn_props: { 'User-Property': {} },
    timestamp: disconnectedAtMs,
    node: 'emqx@127.0.0.1',
    metadata: { rule_id: 'presence' },
  });

  it('are asked for again where they could not be taken', async () => {
    const device = await provisionDevice();
    const startedAtMs = Date.now() - 1_000;
    const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const getByName = vi.spyOn(env.DEVICE_SESSION, 'getByName').mockImplementation(() => {
      throw new Error('Durable Object is overloaded');
    });
    const unavailable = { status: 503, type: null, body: '' };
    expect(await ask('events', connectedOf(device, startedAtMs))).toEqual(unavailable);
    expect(String(error.mock.calls.at(-1)?.[0])).toContain('event of the broker not taken');
    getByName.mockRestore();
    expect(await ask('events', connectedOf(device, startedAtMs))).toEqual(noContent);
    expect((await statusOf(device)).online).toBe(true);
  });

  it('are read from a body template that quotes its numbers, too', async () => {
    const device = await provisionDevice();
    await ask('events', { event: 'client.connected', clientid: device.name, connected_at: String(Date.now()) });
    expect((await statusOf(device)).online).toBe(true);
  });

  it.each([undefined, null, 'undefined', ''])(
    'end the present session where they name none: %j',
    async (connectedAt) => {
      const device = await provisionDevice();
      const startedAtMs = Date.now() - 1_000;
      expect(await ask('events', connectedOf(device, startedAtMs))).toEqual(noContent);
      const end = { ...disconnectedOf(device, startedAtMs + 500), connected_at: connectedAt };
      expect(await ask('events', end)).toEqual(noContent);
      expect((await statusOf(device)).online).toBe(false);
    },
  );

  it('leave a device online whose session was taken over by its own new one', async () => {
    const device = await provisionDevice();
    const startedAtMs = Date.now() - 1_000;
    await ask('events', connectedOf(device, startedAtMs));
    await ask('events', connectedOf(device, startedAtMs + 900));
    await ask('events', disconnectedOf(device, startedAtMs + 901, 'takenover'));
    await ask('events', disconnectedOf(device, startedAtMs + 902, 'discarded'));
    await ask('events', { ...disconnectedOf(device, startedAtMs + 903), connected_at: startedAtMs });
    expect((await statusOf(device)).online).toBe(true);
  });

  it.each([
    ['another kind of event', { event: 'session.subscribed', clientid: 'switch&dev_00000000', topic: 'x' }],
    ['a client that is no device', { event: 'client.connected', clientid: 'latchwork-bridge', connected_at: 1 }],
    ['an unknown device', { event: 'client.connected', clientid: 'switch&dev_00000000', connected_at: 1 }],
    ['a time that is none', { event: 'client.connected', clientid: 'switch&dev_00000000', connected_at: 'soon' }],
    ['no JSON', 'nonsense'],
  ])('are acknowledged and left at that: %s', async (_, event) => {
    expect(await ask('events', event)).toEqual(noContent);
  });
});
