// The local broker as its own process, real MQTT clients, and a small HTTP server in place of the Worker's hooks. The tests
// show which questions the broker asks, obeys and reports.
import { connect, type IClientOptions, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { connectBytesOf, TcpClient } from '../../rig/clients/tcp-client.ts';
import { HookServer, hookServerSecret, topicRoot } from '../../rig/services/hook-server.ts';
import { LocalBroker } from '../../rig/services/processes.ts';

const productKey = 'switch-1';
let hook: HookServer;
const clients: MqttClient[] = [];
let broker: LocalBroker;
let deviceCount = 0;

/** A device that nobody used before, so that tests do not meet in one client identifier. */
function newDevice(): { name: string; root: string } {
  deviceCount += 1;
  const name = `${productKey}&dev_${String(deviceCount).padStart(8, '0')}`;
  return { name, root: topicRoot(name) };
}

function open(name: string, options: IClientOptions = {}): MqttClient {
  const client = connect({
    host: '127.0.0.1',
    port: broker.ready.mqttPort,
    clientId: name,
    username: name,
    password: 'right',
    protocolVersion: 4,
    reconnectPeriod: 0,
    ...options,
  });
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

async function online(name: string, options: IClientOptions = {}): Promise<MqttClient> {
  const client = open(name, options);
  await heard(client, 'connect');
  return client;
}

function heard(client: MqttClient, event: 'connect' | 'error'): Promise<unknown> {
  return new Promise((resolve) => client.once(event, resolve));
}

/** The CONNACK code of a refused login. */
async function refusalOf(name: string, options: IClientOptions): Promise<number> {
  const error = (await heard(open(name, options), 'error')) as { code: number };
  return error.code;
}

function collect(client: MqttClient): string[] {
  const seen: string[] = [];
  client.on('message', (topic, payload) => seen.push(`${topic} ${payload.toString()}`));
  return seen;
}

beforeAll(async () => {
  hook = await HookServer.start();
  broker = await LocalBroker.start({ workerUrl: hook.url, hookSecret: hookServerSecret });
});

beforeEach(() => {
  hook.isDown = false;
});

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.endAsync(true)));
});

afterAll(async () => {
  await broker.kill('SIGKILL');
  await hook.stop();
});

describe('logins', () => {
  test('a device that the Worker allows gets its session, and the Worker hears of its beginning and end', async () => {
    const { name } = newDevice();
    const client = await online(name);
    await vi.waitFor(() => expect(hook.eventsOf(name)).toEqual(['client.connected']));
    expect(hook.logins.at(-1)).toMatchObject({ clientid: name, username: name, proto_ver: 4, peerhost: '127.0.0.1' });
    await client.endAsync();
    await vi.waitFor(() => expect(hook.eventsOf(name)).toEqual(['client.connected', 'client.disconnected normal']));
    const [begun, ended] = hook.events.filter((event) => event.clientid === name);
    expect(ended?.connected_at).toBe(begun?.connected_at);
    expect(ended?.disconnected_at).toBeGreaterThanOrEqual(begun?.connected_at ?? Infinity);
  });

  test('a refusal keeps its reason in the CONNACK code (field note 41)', async () => {
    const { name } = newDevice();
    expect(await refusalOf(name, { password: 'wrong' })).toBe(4);
    expect(await refusalOf(name, { clientId: 'my-application' })).toBe(2);
    expect(await refusalOf(name, { clientId: 'x', username: 'nobody' })).toBe(5);
    expect(hook.eventsOf(name)).toEqual([]);
  });

  test('without an answer of the Worker nobody gets in: server unavailable', async () => {
    hook.isDown = true;
    expect(await refusalOf(newDevice().name, {})).toBe(3);
  });

  test('refuses MQTT 5, which it does not speak, and says where it is spoken (MQTT-3.1.2-2)', async () => {
    expect(await refusalOf(newDevice().name, { protocolVersion: 5 })).toBe(1);
    await vi.waitFor(() => {
      const line = broker.lines.find(({ event }) => event === 'mqtt_version_refused');
      expect(line).toMatchObject({
        level: 'warn',
        address: '127.0.0.1',
        hint: expect.stringContaining('direct') as string,
      });
    });
  });

  test('MQTT 3.1 with a long client identifier is served, and a refusal has its code (field notes 36, 37)', async () => {
    const { name } = newDevice();
    const old = { protocolId: 'MQIsdp', protocolVersion: 3 } as const;
    await online(name, old);
    expect(await refusalOf(name, { ...old, password: 'wrong' })).toBe(4);
  });
});

describe('topics', () => {
  test('a malformed subscription ends its sender at most (field note 42)', async () => {
    const bystander = newDevice();
    const other = await online(bystander.name);
    const seen = collect(other);
    await other.subscribeAsync(`${bystander.root}/#`);
    const { name } = newDevice();
    const client = await online(name);
    // mqtt.js would refuse to send it: SUBSCRIBE, id 1, filter "a/#/b", QoS 0.
    client.stream.write(Buffer.from([0x82, 10, 0, 1, 0, 5, 0x61, 0x2f, 0x23, 0x2f, 0x62, 0]));
    await vi.waitFor(() => expect(client.connected).toBe(false));
    await other.publishAsync(`${bystander.root}/status`, 'unmoved', { qos: 1 });
    await vi.waitFor(() => expect(seen).toEqual([`${bystander.root}/status unmoved`]));
  });

  test('only the status may be retained, and the Worker hears of each refused publish', async () => {
    const { name, root } = newDevice();
    const client = await online(name);
    await client.publishAsync(`${root}/thing/event/property/post`, 'not kept', { qos: 1, retain: true });
    await client.publishAsync(`${root}/status`, 'kept', { qos: 1, retain: true });
    const seen = collect(client);
    await client.subscribeAsync(`${root}/#`);
    await vi.waitFor(() => expect(seen).toEqual([`${root}/status kept`]));
    const topic = `${root}/thing/event/property/post`;
    await vi.waitFor(() => expect(hook.refused).toEqual([{ username: name, topic, retain: true, action: 'publish' }]));
  });

  test('a persistent session does not receive what it was refused, not even from its queue', async () => {
    const { name } = newDevice();
    const stranger = newDevice();
    const first = await online(name, { clean: false });
    await first.subscribeAsync([`${topicRoot(name)}/#`, `${stranger.root}/#`], { qos: 1 }).catch(() => undefined);
    await first.endAsync();
    await (await online(stranger.name)).publishAsync(`${stranger.root}/status`, 'private', { qos: 1 });
    const second = open(name, { clean: false });
    const seen = collect(second);
    await heard(second, 'connect');
    await second.publishAsync(`${topicRoot(name)}/status`, 'own', { qos: 1 });
    await vi.waitFor(() => expect(seen).toEqual([`${topicRoot(name)}/status own`]));
  });
});

describe('the ends of sessions', () => {
  test('a broken connection and a silent one are told apart', async () => {
    const broken = newDevice();
    (await online(broken.name)).stream.destroy();
    await vi.waitFor(() => expect(hook.eventsOf(broken.name)).toContain('client.disconnected tcp_closed'));

    const { name } = newDevice();
    // Any MQTT library would ping; this connection says nothing more after its CONNECT.
    const { socket } = await TcpClient.open(broker.ready.mqttPort);
    socket.write(connectBytesOf({ clientId: name, username: name, password: 'right', keepalive: 1 }));
    await vi.waitFor(() => expect(hook.eventsOf(name)).toContain('client.disconnected keepalive_timeout'));
  });

  test('the Worker can end a session, with the right key only', async () => {
    const { name } = newDevice();
    const client = await online(name);
    expect(await kick(name, 'key:wrong')).toBe(401);
    expect(client.connected).toBe(true);
    expect(await kick(name)).toBe(204);
    await vi.waitFor(() => expect(client.connected).toBe(false));
    expect(await kick(name)).toBe(404);
  });

  async function kick(name: string, credentials = 'key:secret'): Promise<number> {
    const url = `http://127.0.0.1:${broker.ready.adminPort}/api/v5/clients/${encodeURIComponent(name)}`;
    const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;
    const response = await fetch(url, { method: 'DELETE', headers: { authorization } });
    return response.status;
  }
});

describe('reports', () => {
  test('what happened while the Worker was away is reported later, in order', async () => {
    const { name } = newDevice();
    const client = await online(name);
    await vi.waitFor(() => expect(hook.eventsOf(name)).toHaveLength(1));
    hook.isDown = true;
    await client.endAsync();
    const refused = refusalOf(name, {});
    expect(await refused).toBe(3);
    hook.isDown = false;
    await online(name);
    const expected = ['client.connected', 'client.disconnected normal', 'client.connected'];
    await vi.waitFor(() => expect(hook.eventsOf(name)).toEqual(expected));
  });

  test('a broker that is told to stop ends its sessions, reports that and leaves', async () => {
    const { name } = newDevice();
    await online(name);
    expect(await broker.kill('SIGTERM')).toBe(0);
    expect(hook.eventsOf(name)).toEqual(['client.connected', 'client.disconnected broker_restart']);
  });
});
