// A home's object: what it keeps over its sleep and what it forgets, and packets that no library sends. What a client sees of devices is
// test/system/home.test.ts.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { homeDiscoveryOf } from '../../../src/domain/home/discovery.ts';
import { homeLimits, homeRules, homeTopicsOf } from '../../../src/domain/home/clients.ts';
import { createKey, type Key } from '../rig/authorization-callers.ts';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import {
  connectHome,
  DirectClient,
  packet,
  pingreq,
  publishPacket,
  subscribePacket,
  text,
} from '../rig/clients/direct.ts';
import { report } from '../rig/commands.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { activate } from '../rig/ownership.ts';

const homeOf = ({ keyId }: Key) => env.HOME_BROKER.getByName(`home-${keyId}`);
const publishType = 3;
const savedRow = 'subscriptions 0';
/** What the object has written of its only client's subscriptions. */
const readSaved = (key: Key) => runInDurableObject(homeOf(key), (_, { storage }) => storage.kv.get(savedRow));
const untilSaved = (key: Key, count: number) =>
  vi.waitFor(async () => expect(await readSaved(key)).toHaveLength(count), { timeout: 5_000 });

async function furnish() {
  const user = await createUser();
  const productKey = await makeProduct(user);
  const { deviceId } = (await activate(productKey, undefined, { deviceSN: 'SN-home' })).data;
  return { user, device: { productKey, deviceId }, topics: homeTopicsOf(deviceId), key: await createKey(user) };
}

/** The next message, whatever answers come before it. */
async function nextMessage(client: DirectClient): Promise<{ topic: string; payload: string; isRetained: boolean }> {
  for (;;) {
    const { type, flags, body } = await client.next();
    if (type !== publishType) continue;
    const end = 2 + (body[0] ?? 0) * 256 + (body[1] ?? 0);
    const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { topic: decode(body.subarray(2, end)), payload: decode(body.subarray(end)), isRetained: (flags & 1) === 1 };
  }
}

const deleteKey = ({ token }: TestUser, { keyId }: Key) => call('DELETE', `/users/api-keys/${keyId}`, { token });

it('hears reports after it slept, answers pings, and knows what its clients subscribed to', async () => {
  const { device, topics, key } = await furnish();
  const { client } = await connectHome(key);
  client.send(subscribePacket(topics.state));
  await vi.waitFor(async () => {
    client.send(subscribePacket('latchwork/#', 1, { packetId: 2 }));
    expect((await nextMessage(client)).isRetained).toBe(true);
  });
  await untilSaved(key, 2);
  for (const position of ['up', 'middle', 'down']) {
    await evictDurableObject(homeOf(key));
    client.send(pingreq);
    await bringUp(device, report({ position }));
    await vi.waitFor(async () => {
      const { topic, payload } = await nextMessage(client);
      expect([topic, payload]).toEqual([topics.state, expect.stringContaining(`"position":"${position}"`)]);
    });
  }
  expect(client.end).toBeUndefined();
});

it('a ping writes nothing, a subscription is written', async () => {
  const { topics, key } = await furnish();
  const { client } = await connectHome(key);
  client.send(subscribePacket(topics.state));
  await untilSaved(key, 1);
  await runInDurableObject(homeOf(key), (_, { storage }) => storage.kv.delete(savedRow));
  client.send(pingreq);
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(await readSaved(key)).toBeUndefined();
  client.send(subscribePacket('latchwork/#'));
  await untilSaved(key, 2);
});

it('an object without a client answers that nobody listens, and one without a key writes nothing', async () => {
  const { device, key, user } = await furnish();
  const { client } = await connectHome(key);
  client.drop();
  await client.untilClosed();
  const run = { deviceId: device.deviceId, topic: 'x', payloads: ['{}'], generations: [] };
  await vi.waitFor(async () =>
    expect(await homeOf(key).push([run])).toEqual({ nobodyFor: [], noFleetOf: [user.userId] }),
  );
});

it('a key that ended unnoticed is found with a later packet', async () => {
  const { key } = await furnish();
  const { client } = await connectHome(key);
  await env.DB.prepare('delete from api_keys where key_id = ?').bind(key.keyId).run();
  vi.useFakeTimers({ now: Date.now() + 6 * 60_000, toFake: ['Date'] });
  client.send(pingreq);
  await client.untilClosed();
  vi.useRealTimers();
});

it('a key that is deleted while its client logs in lets nobody in', async () => {
  const { key, user } = await furnish();
  const logins = Promise.all(Array.from({ length: 3 }, (_, index) => connectHome(key, { clientId: `racer-${index}` })));
  await deleteKey(user, key);
  for (const { client, connack } of await logins) if (connack.body[1] === 0) await client.untilClosed();
  expect((await connectHome(key)).connack.body[1]).not.toBe(0);
});

describe('packets', () => {
  it('a client of MQTT 5 is told a keep-alive and, without one, its id', async () => {
    const { key } = await furnish();
    const { connack } = await connectHome(key, { level: 5, clientId: '', keepAlive: 60 });
    const properties = [...connack.body.subarray(3)];
    expect(properties[0]).toBe(18);
    expect(connack.text).toContain('home-');
    const at = 3 + (properties[2] ?? 0);
    expect(properties.slice(at, at + 3)).toEqual([19, 0, homeLimits.keepAliveSeconds]);
  });

  it('a broker that passes messages on gets each with its retain flag', async () => {
    const { device, topics, key } = await furnish();
    const client = await DirectClient.open('home');
    const login = [...text(key.keyId), ...text(key.apiKey)];
    client.send(packet(0x10, [...text('MQTT'), 0x84, 0xc2, 0, 60, ...text('bridge'), ...login]));
    expect((await client.next()).body[1]).toBe(0);
    client.send(subscribePacket('latchwork/+/state'));
    await bringUp(device, report({ position: 'up' }));
    await vi.waitFor(async () => {
      const message = await nextMessage(client);
      expect(message).toEqual({
        topic: topics.state,
        payload: expect.stringContaining('"up"') as string,
        isRetained: true,
      });
    });
  });

  it('a press that comes again is not carried out twice, and is said so', async () => {
    const { topics, key } = await furnish();
    const { client } = await connectHome(key);
    client.send(subscribePacket('latchwork/#'));
    await vi.waitFor(async () => expect((await nextMessage(client)).topic).toBe(topics.state));
    const again = publishPacket(topics.press, 'pulse', { packetId: 7 });
    again[0] = (again[0] ?? 0) | 8;
    client.send(again);
    await vi.waitFor(async () => expect((await nextMessage(client)).payload).toContain('may have been carried out'));
  });

  it('filters beyond the limit are refused, and what is left keeps working', async () => {
    const { topics, key } = await furnish();
    const { client } = await connectHome(key, { level: 5 });
    const filters = Array.from({ length: homeRules.maxSubscriptions }, (_, index) => `latchwork/${index}/state`);
    for (let at = 0; at < filters.length; at += 500) {
      const some = filters.slice(at, at + 500).flatMap((filter) => [...text(filter), 0]);
      client.send(packet(0x82, [0, 1, 0, ...some]));
      expect([...(await client.next()).body].slice(3).every((code) => code === 0)).toBe(true);
    }
    client.send(subscribePacket(topics.state, 0, { level: 5 }));
    expect([...(await client.next()).body].at(-1)).toBe(0x97);
  });
});

it('discovery of a device with everything stays below what a client may ask for', () => {
  const deviceId = 'dev_8k2m4n6p';
  const product = { name: 'P'.repeat(100), model: 'M'.repeat(100), uiTemplate: 'generic' };
  const record = {
    deviceId,
    name: 'N'.repeat(100),
    firmwareVersion: 'F'.repeat(64),
    chipModel: 'C'.repeat(64),
    product,
  };
  const parts = { controlMode: 'generic', mayControl: true, hasActual: true, hasTwoPositions: false };
  const [, payload] = homeDiscoveryOf(record, parts, 'https://api.example.com');
  expect(payload.length).toBeLessThan(4_096);
});
