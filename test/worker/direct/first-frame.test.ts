// `{ws_url}/mqtt` without a device in its path: a first frame of bytes is MQTT, text is the relay's language, whatever
// sub-protocol was asked for.
import { createExecutionContext, evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { createSecret } from '../../../src/crypto/secrets.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { maxRelayFrameBytes } from '../../../src/protocol/relay.ts';
import {
  connectPacket,
  disconnectPacket,
  EdgeClient,
  packet,
  pingreq,
  publishPacket,
  text,
  type ConnectOptions,
} from '../rig/clients/edge.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../rig/provision.ts';
import { authed, authOf, comeOnline, ping, pong, subscribed } from '../rig/clients/relay.ts';
import { TestSocket } from '../rig/clients/socket.ts';

const app = createApp();
const withMqtt = { 'Sec-WebSocket-Protocol': 'mqtt' };
let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;

type Opening = { headers?: Record<string, string>; limits?: string; address?: string; changed?: object };

async function upgrade({ headers = withMqtt, limits = '', address = newAddress(), changed = {} }: Opening = {}) {
  const all = { Upgrade: 'websocket', 'CF-Connecting-IP': address, ...headers };
  const bindings = { ...env, LIMITS: limits, ...changed } as Env;
  const request = new Request('https://latchwork.test/mqtt', { headers: all });
  return app.fetch(request, bindings, createExecutionContext());
}

async function socketOf(opening?: Opening): Promise<WebSocket> {
  const response = await upgrade(opening);
  if (response.webSocket === null) throw new Error(`not upgraded: ${response.status} ${await response.text()}`);
  return response.webSocket;
}

const openEdge = async (opening?: Opening) => EdgeClient.over(await socketOf(opening));
const openText = async (opening?: Opening) => new TestSocket(await socketOf(opening));

async function connect(device: TestDevice, opening?: Opening, options?: ConnectOptions): Promise<EdgeClient> {
  const client = await openEdge(opening);
  client.send(connectPacket(device, options));
  expect([...(await client.next()).body].slice(0, 2)).toEqual([0, 0]);
  return client;
}

/** Objects of devices that were called. */
function countWoken() {
  let woken = 0;
  const DEVICE_SESSION = {
    getByName(name: string) {
      woken += 1;
      return env.DEVICE_SESSION.getByName(name);
    },
  };
  return { changed: { DEVICE_SESSION }, woken: () => woken };
}

const isOnline = async ({ deviceId }: TestDevice) => {
  const status = await sessionOf(deviceId).status(inPerson(1));
  return status.ok && status.value.online;
};

describe('bytes first, with the sub-protocol of MQTT', () => {
  it('are a session at the object that the username names', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    expect(await isOnline(device)).toBe(true);
    client.send(publishPacket(topicOf(device, 'thing/event/property/post'), '{"position":"up"}', { packetId: 7 }));
    const puback = await client.next();
    expect([puback.type, ...puback.body]).toEqual([4, 0, 7]);
    const status = await sessionOf(device.deviceId).status(inPerson(1));
    expect(status.ok && status.value.position).toBe('up');
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
    client.send(disconnectPacket);
    await vi.waitFor(async () => expect(await isOnline(device)).toBe(false));
  });

  it('go on where the object slept', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    for (let sleep = 0; sleep < 3; sleep++) {
      await evictDurableObject(sessionOf(device.deviceId));
      client.send(pingreq);
      expect((await client.next()).type).toBe(13);
    }
    expect(client.end).toBeUndefined();
  });

  it('with a wrong password get the code for it, and no object wakes', async () => {
    const device = await provisionDevice();
    const { changed, woken } = countWoken();
    for (const password of ['tk_wrong', createSecret('tk_', 48)]) {
      const client = await openEdge({ changed });
      client.send(connectPacket(device, { password }));
      const connack = await client.next();
      expect([connack.type, ...connack.body]).toEqual([2, 0, 4]);
      expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    }
    expect(woken()).toBe(0);
  });

  it('that name a device that is not there get that code, too, and no object wakes', async () => {
    const { name, password } = await provisionDevice();
    const { changed, woken } = countWoken();
    for (const username of [name.replace(/dev_.*/, 'dev_33333333'), 'other&dev_33333333', 'nobody']) {
      const client = await openEdge({ changed });
      client.send(connectPacket({ name, password } as TestDevice, { username, clientId: username }));
      expect([...(await client.next()).body]).toEqual([0, 4]);
      expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    }
    expect(woken()).toBe(0);
  });

  it('end with the session, whoever ends it', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    await sessionOf(device.deviceId).decide({
      kind: 'credentials_replaced',
      actor: inPerson(1),
      passwordDigest: 'digest-of-another',
      address: null,
    });
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    const gone = await provisionDevice();
    const second = await connect(gone);
    second.drop();
    await vi.waitFor(async () => {
      const events = await sessionOf(gone.deviceId).events(inPerson(1), { page: 1, size: 1 });
      expect(events.ok && events.value.list[0]).toMatchObject({ status: 'offline' });
    });
  });
});

describe('CONNECT on a socket whose path names no device', () => {
  it('may be cut anywhere', async () => {
    const device = await provisionDevice();
    const bytes = connectPacket(device, { level: 5 });
    for (let at = 1; at < bytes.length; at += 7) {
      const client = await openEdge();
      client.send(bytes.subarray(0, at));
      client.send(bytes.subarray(at));
      const connack = await client.next();
      expect([connack.type, connack.body[1]], `cut at ${at}`).toEqual([2, 0]);
    }
  });

  it('may be followed at once by what needs a session', async () => {
    const device = await provisionDevice();
    const client = await openEdge();
    client.send(connectPacket(device), pingreq);
    client.send(pingreq);
    const types = [await client.next(), await client.next(), await client.next()].map(({ type }) => type);
    expect(types).toEqual([2, 13, 13]);
  });

  const named = (name: string) => packet(0x10, [...text(name), 4, 2, 0, 60, ...text('x')]);

  it.each<[string, (device: TestDevice) => Uint8Array, number[] | null, number]>([
    // MQTT-3.1.0-1
    ['another packet', () => pingreq, null, 1002],
    // MQTT-3.1.2-1
    ['another protocol', () => named('HTTP'), null, 1002],
    // MQTT-3.1.2-2
    ['MQTT 3.1', () => packet(0x10, [...text('MQIsdp'), 3, 2, 0, 60, ...text('x')]), [0, 1], 1008],
    ['no username', (device) => connectPacket(device, { username: undefined, password: undefined }), [0, 4], 1008],
    ['a name that is none', (device) => connectPacket(device, { username: 'admin' }), [0, 4], 1008],
    ['more than 1 KiB', (device) => connectPacket(device, { clientId: 'x'.repeat(1_100) }), null, 1009],
    ['a length that never ends', () => Uint8Array.of(0x10, 255, 255, 255, 255, 1), null, 1002],
  ])('is refused without an object: %s', async (_, make, answer, code) => {
    const device = await provisionDevice();
    const { changed, woken } = countWoken();
    const client = await openEdge({ changed });
    client.send(make(device));
    if (answer !== null) expect([...(await client.next()).body]).toEqual(answer);
    expect(await client.untilClosed()).toMatchObject({ code });
    expect(woken()).toBe(0);
  });

  it('with another client id is refused by the object', async () => {
    const device = await provisionDevice();
    const client = await openEdge();
    client.send(connectPacket(device, { clientId: 'esp32-17' }));
    expect([...(await client.next()).body]).toEqual([0, 2]);
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
  });

  it('has ten seconds, of which a limit may leave one', async () => {
    const [mute, half] = [
      await openEdge({ limits: 'edgeConnectSeconds=1' }),
      await openEdge({ limits: 'edgeConnectSeconds=1' }),
    ];
    half.send(Uint8Array.of(0x10, 40));
    expect(await mute.untilClosed()).toEqual({ code: 1008, reason: 'no CONNECT in time' });
    expect(await half.untilClosed()).toEqual({ code: 1008, reason: 'no CONNECT in time' });
  });
});

describe('sockets without a good CONNECT', () => {
  it('are limited by address', async () => {
    const opening = { address: newAddress(), limits: 'edgeUnconnectedPerAddress=2' };
    const [first] = [await openEdge(opening), await openEdge(opening)];
    const refused = await upgrade(opening);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ code: 429, message: 'too_many_requests' });
    expect((await upgrade({ ...opening, address: newAddress() })).status).toBe(101);
    first.drop();
    await vi.waitFor(async () => expect((await upgrade(opening)).status).toBe(101));
  });

  it('do not count once they have a session', async () => {
    const opening = { address: newAddress(), limits: 'edgeUnconnectedPerAddress=1' };
    for (let count = 0; count < 3; count++) await connect(await provisionDevice(), opening);
    expect((await upgrade(opening)).status).toBe(101);
    expect((await upgrade(opening)).status).toBe(429);
  });

  it('make room for newer ones when there are too many in all', async () => {
    const limits = 'edgeUnconnected=1';
    const oldest = await openEdge({ limits });
    const newest = await openEdge({ limits });
    expect(await oldest.untilClosed()).toEqual({ code: 1013, reason: 'too many connections without CONNECT' });
    expect(newest.end).toBeUndefined();
  });
});

describe('what a device sends and its object has not taken', () => {
  const limits = 'edgeUntakenBytes=131072';
  const padded = (device: TestDevice, packetId: number) =>
    publishPacket(topicOf(device, 'thing/event/property/post'), `{"position":"up","x":"${'x'.repeat(14_000)}"}`, {
      packetId,
    });

  it('is limited', async () => {
    const client = await connect(await provisionDevice(), { limits });
    client.send(new Uint8Array(131_073));
    expect(await client.untilClosed()).toMatchObject({ code: 1013 });
  });

  it('is not limited in all', async () => {
    const device = await provisionDevice();
    const client = await connect(device, { limits });
    for (let packetId = 1; packetId <= 30; packetId++) {
      client.send(padded(device, packetId));
      expect((await client.next()).type).toBe(4);
    }
    expect(client.end).toBeUndefined();
  });
});

describe('text first, with the sub-protocol of MQTT', () => {
  it('is the relay: auth, subscribe and pushes', async () => {
    const device = await provisionDevice();
    const response = await upgrade();
    expect(response.headers.get('Sec-WebSocket-Protocol')).toBe('mqtt');
    const socket = new TestSocket(response.webSocket!);
    const topic = topicOf(device, 'status');
    socket.send(authOf(device));
    socket.send({ action: 'subscribe', topic });
    expect(await socket.next()).toEqual(authed);
    expect(await socket.next()).toEqual(subscribed(topic));
    await comeOnline(device);
    expect(await socket.next()).toEqual({ topic, payload: { status: 'online' } });
    expect(await isOnline(device)).toBe(true);
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('keeps the relay’s limits and codes', async () => {
    const socket = await openText();
    expect(await socket.ask('{')).toEqual({ action: 'error', code: 400, message: 'invalid_request' });
    expect(await socket.ask(new ArrayBuffer(5))).toEqual({ action: 'error', code: 400, message: 'invalid_request' });
    socket.send(' '.repeat(maxRelayFrameBytes + 1));
    expect(await socket.end()).toEqual({ code: 1009, reason: 'frame larger than 16 KiB' });
  });

  it('is closed where the shard takes no more of the address', async () => {
    const opening = { address: newAddress() };
    for (let count = 0; count < limitSpecs.relaySocketsPerAddress.default / 10; count++) {
      expect(await (await openText(opening)).ask(ping)).toEqual(pong);
    }
    const refused = await openText(opening);
    refused.send(ping);
    expect(await refused.end()).toEqual({ code: 1013, reason: 'too many sockets' });
  });
});
