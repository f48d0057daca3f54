// A device's WebSocket beyond the budget of unproven logins: the Worker reads CONNECT, and wakes no object for a guess. And the
// address without a device, which is the relay's alone.
import { evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { createContext } from '../../../src/context.ts';
import { createSecret } from '../../../src/crypto/secrets.ts';
import type { ConnectPacket } from '../../../src/protocol/mqtt-codec/client-packets.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { admitDevice } from '../../../src/services/sockets/open-sockets.ts';
import { openUnproven } from '../../../src/services/sockets/unproven-socket.ts';
import {
  connectPacket,
  DirectClient,
  packet,
  pingreq,
  publishPacket,
  text,
  type ConnectOptions,
} from '../rig/clients/direct.ts';
import { countWoken } from '../rig/limited.ts';
import { eventsOf, provisionDevice, sessionOf, replacePassword, type TestDevice, statusOf } from '../rig/provision.ts';
import { authed, authOf, comeOnline, ping, pong, subscribed } from '../rig/clients/relay.ts';
import { openSocket } from '../rig/clients/socket.ts';

let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;

type Opening = { address?: string; perAddress?: number; changed?: object };

function open(
  deviceId: string,
  { address = newAddress(), perAddress = 100, changed = {} }: Opening = {},
): DirectClient {
  const bindings = { ...env, ...changed } as Env;
  const config = readConfig(bindings);
  const limits = { ...config.limits, directUnconnectedPerAddress: perAddress };
  const context = createContext(bindings, { ...config, limits }, address);
  const admit = (packet: ConnectPacket) => admitDevice(context, deviceId, packet);
  return DirectClient.over(openUnproven(context, { about: { deviceId }, admit }));
}

async function connect(device: TestDevice, opening?: Opening, options?: ConnectOptions): Promise<DirectClient> {
  const client = open(device.deviceId, opening);
  client.send(connectPacket(device, options));
  expect([...(await client.next()).body].slice(0, 2)).toEqual([0, 0]);
  return client;
}

describe('a socket whose CONNECT the Worker reads', () => {
  it('goes on after the object slept', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    for (let sleep = 0; sleep < 3; sleep++) {
      await evictDurableObject(sessionOf(device.deviceId));
      client.send(pingreq);
      expect((await client.next()).type).toBe(13);
    }
    expect(client.end).toBeUndefined();
  });

  it('gets the code for a wrong password, another device or none, and no object wakes', async () => {
    const device = await provisionDevice();
    const { changed, woken } = countWoken();
    const passwords = ['tk_wrong', createSecret('tk_', 48)].map((password) => ({ password }));
    const names = [device.name.replace(/dev_.*/, 'dev_33333333'), 'other&dev_33333333', 'nobody'];
    for (const wrong of [...passwords, ...names.map((name) => ({ username: name, clientId: name }))]) {
      const client = open(device.deviceId, { changed });
      client.send(connectPacket(device, wrong));
      const connack = await client.next();
      expect([connack.type, ...connack.body]).toEqual([2, 0, 4]);
      expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    }
    expect(woken).toEqual([]);
  });

  it('ends with the session, which the service or the device ends', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    await replacePassword(device);
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    const gone = await provisionDevice();
    const second = await connect(gone);
    second.drop();
    await vi.waitFor(async () => expect((await eventsOf(gone))[0]).toMatchObject({ status: 'offline' }));
  });
});

describe('CONNECT', () => {
  it('may be cut anywhere', async () => {
    const device = await provisionDevice();
    const bytes = connectPacket(device, { level: 5 });
    for (let at = 1; at < bytes.length; at += 7) {
      const client = open(device.deviceId);
      client.send(bytes.subarray(0, at));
      client.send(bytes.subarray(at));
      const connack = await client.next();
      expect([connack.type, connack.body[1]], `cut at ${at}`).toEqual([2, 0]);
    }
  });

  it('may be followed at once by what needs a session', async () => {
    const device = await provisionDevice();
    const client = open(device.deviceId);
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
    const client = open(device.deviceId, { changed });
    client.send(make(device));
    if (answer !== null) expect([...(await client.next()).body]).toEqual(answer);
    expect(await client.untilClosed()).toMatchObject({ code });
    expect(woken).toEqual([]);
  });

  it('with another client id is refused by the object', async () => {
    const device = await provisionDevice();
    const client = open(device.deviceId);
    client.send(connectPacket(device, { clientId: 'esp32-17' }));
    expect([...(await client.next()).body]).toEqual([0, 2]);
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
  });

  it('has ten seconds', async () => {
    const deadlines: (() => void)[] = [];
    vi.spyOn(globalThis, 'setTimeout').mockImplementation((run, ms) => {
      if (ms === 10_000) deadlines.push(run as () => void);
      return 0;
    });
    const [mute, half] = [open('dev_00000000'), open('dev_00000000')];
    vi.restoreAllMocks();
    half.send(Uint8Array.of(0x10, 40));
    for (const expire of deadlines) expire();
    expect(await mute.untilClosed()).toEqual({ code: 1008, reason: 'no CONNECT in time' });
    expect(await half.untilClosed()).toEqual({ code: 1008, reason: 'no CONNECT in time' });
  });
});

describe('sockets without a good CONNECT', () => {
  const tooMany: unknown = expect.objectContaining({
    refusal: expect.objectContaining({ kind: 'limit_reached' }) as object,
  });

  it('are limited by address', async () => {
    const opening = { address: newAddress(), perAddress: 2 };
    const [first] = [open('dev_00000000', opening), open('dev_00000000', opening)];
    expect(() => open('dev_00000000', opening)).toThrow(tooMany);
    open('dev_00000000', { ...opening, address: newAddress() });
    first.drop();
    await vi.waitFor(() => open('dev_00000000', opening));
  });

  it('do not count once they have a session', async () => {
    const opening = { address: newAddress(), perAddress: 1 };
    for (let count = 0; count < 3; count++) await connect(await provisionDevice(), opening);
    open('dev_00000000', opening);
    expect(() => open('dev_00000000', opening)).toThrow(tooMany);
  });

  it('make room for newer ones when there are 2 000 in all', async () => {
    const oldest = open('dev_00000000');
    const newer = Array.from({ length: 2_000 }, () => open('dev_00000000'));
    expect(await oldest.untilClosed()).toEqual({ code: 1013, reason: 'too many connections without CONNECT' });
    expect(newer[0]?.end).toBeUndefined();
    for (const client of newer) client.drop();
  });
});

describe('what a device sends and its object has not taken', () => {
  it('is limited', async () => {
    const client = await connect(await provisionDevice());
    client.send(new Uint8Array(1_048_577));
    expect(await client.untilClosed()).toMatchObject({ code: 1013 });
  });

  it('is not limited in all', async () => {
    const device = await provisionDevice();
    const client = await connect(device);
    const padded = `{"position":"up","x":"${'x'.repeat(14_000)}"}`;
    for (let packetId = 1; packetId <= 90; packetId++) {
      client.send(publishPacket(topicOf(device, 'thing/event/property/post'), padded, { packetId }));
      expect((await client.next()).type).toBe(4);
    }
    expect(client.end).toBeUndefined();
  });
});

describe('the address without a device', () => {
  it('is the relay, also for a client that asks for the sub-protocol of MQTT', async () => {
    const device = await provisionDevice();
    const socket = await openSocket('/mqtt', { 'CF-Connecting-IP': newAddress(), 'Sec-WebSocket-Protocol': 'mqtt' });
    const topic = topicOf(device, 'status');
    socket.send(authOf(device));
    socket.send({ action: 'subscribe', topic });
    expect(await socket.next()).toEqual(authed);
    expect(await socket.next()).toEqual(subscribed(topic));
    await comeOnline(device);
    expect(await socket.next()).toEqual({ topic, payload: { status: 'online' } });
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('tells a client that speaks MQTT where to go', async () => {
    const device = await provisionDevice();
    const socket = await openSocket('/mqtt', { 'CF-Connecting-IP': newAddress() });
    socket.send(connectPacket(device).slice().buffer);
    expect(await socket.end()).toEqual({ code: 1003, reason: 'MQTT is at /mqtt/{deviceId}' });
    expect((await statusOf(device)).online).toBe(false);
  });
});
