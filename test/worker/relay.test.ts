// The WebSocket relay (contract 6, decision: relay): who receives what, for how long, and that hibernation, retries and
// races neither lose nor double a push.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { digestOf } from '../../src/crypto/secrets.ts';
import { signAccessToken } from '../../src/crypto/tokens.ts';
import { topicOf, type DeviceIdentity } from '../../src/domain/topics.ts';
import { packMessages } from '../../src/durable/message-columns.ts';
import { relayShardOf } from '../../src/durable/stubs.ts';
import { uplinkPath } from '../../src/protocol/bridge.ts';
import { maxRelayFrameBytes } from '../../src/protocol/relay.ts';
import { call, send } from '../rig/workerd/client.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../rig/workerd/provision.ts';
import { openSocket, type TestSocket } from '../rig/workerd/socket.ts';

const address = '203.0.113.7';
const shardName = relayShardOf(address, readConfig(env).relayShards);
const shard = () => env.RELAY_GATEWAY.getByName(shardName);
const openRelay = (headers: Record<string, string> = {}) =>
  openSocket('/mqtt', { 'CF-Connecting-IP': address, ...headers });

const authOf = ({ name, password }: TestDevice) => ({ action: 'auth', username: name, password });
const authed = { action: 'auth', code: 200, message: 'success' };
const subscribed = (topic: string) => ({ action: 'subscribe', topic, code: 200, message: 'success' });
const forbidden = (topic: string) => ({ action: 'subscribe', topic, code: 403, message: 'forbidden' });
/** Goes through the queue of the socket, unlike the exact text that is answered without waking the shard. */
const ping = '{"action": "ping"}';
const pong = { action: 'pong' };

async function listenAs(device: TestDevice, ...topics: string[]): Promise<TestSocket> {
  const socket = await openRelay();
  expect(await socket.ask(authOf(device))).toEqual(authed);
  for (const topic of topics) expect(await socket.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
  return socket;
}

async function tokenOf(userId: number): Promise<string> {
  return signAccessToken(readConfig(env), userId, 'session');
}

let lastSeq = 0;
const itemOf = (topic: string, payload: string) => ({ seq: ++lastSeq, topic, payload, receivedAtMs: Date.now() });

/** As a bridge would bring it. */
async function report(...items: ReturnType<typeof itemOf>[]): Promise<void> {
  const { code } = await call('POST', uplinkPath, {
    headers: { Authorization: 'Bearer bridge-secret-of-the-worker-tests-only' },
    body: { spoolId: 'spool', sentAtMs: Date.now(), items },
  });
  expect(code).toBe(200);
}

/** Announces a device once, so that the later messages of a test are the only ones. */
async function comeOnline(device: DeviceIdentity): Promise<void> {
  await report(itemOf(topicOf(device, 'status'), '{"status":"online"}'));
}

async function listenersOf({ productKey, deviceId }: DeviceIdentity) {
  const { subscriptions } = await sessionOf(deviceId).ingest(productKey, 'spool', packMessages([]));
  return [...subscriptions];
}

describe('authenticating with device credentials', () => {
  it('answers auth and pushes exactly topic and payload of the device', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    await report(itemOf(topic, '{"params":{"position":"up"}}'));
    expect(await socket.next()).toEqual({ topic, payload: { params: { position: 'up' } } });
    expect(await socket.ask(ping), 'pushed once').toEqual(pong);
  });

  it('puts auth and subscribe in effect in that order when they come without waiting', async () => {
    const device = await provisionDevice();
    const topic = topicOf(device, 'status');
    const socket = await openRelay();
    socket.send(authOf(device));
    socket.send({ action: 'subscribe', topic });
    expect(await socket.next()).toEqual(authed);
    expect(await socket.next()).toEqual(subscribed(topic));
    await comeOnline(device);
    expect(await socket.next()).toEqual({ topic, payload: { status: 'online' } });
  });

  it('asks for no sub-protocol and no particular origin', async () => {
    const device = await provisionDevice();
    const socket = await openRelay({ Origin: 'https://elsewhere.test', 'Sec-WebSocket-Protocol': 'mqtt' });
    expect(await socket.ask(authOf(device))).toEqual(authed);
  });

  it.each<[string, (device: TestDevice) => object, string]>([
    ['a wrong password', (device) => ({ ...authOf(device), password: 'tk_wrong' }), 'invalid_password'],
    ['an empty password', (device) => ({ ...authOf(device), password: '' }), 'invalid_password'],
    ['the device secret', (device) => ({ ...authOf(device), password: 'sk_of-the-device' }), 'invalid_password'],
    ['an unknown device', (device) => ({ ...authOf(device), username: 'switch&dev_00000000' }), 'device_not_found'],
    ['another product', (device) => ({ ...authOf(device), username: `x&${device.deviceId}` }), 'device_not_found'],
    ['something that is no name', (device) => ({ ...authOf(device), username: 'admin' }), 'device_not_found'],
    ['a forged token', () => ({ action: 'auth', token: 'a.b.c' }), 'unauthorized'],
  ])('refuses %s with 401', async (_, frame, message) => {
    const device = await provisionDevice();
    const socket = await openRelay();
    expect(await socket.ask(frame(device))).toEqual({ action: 'auth', code: 401, message });
    const topic = topicOf(device, 'status');
    expect(await socket.ask({ action: 'subscribe', topic })).toEqual({
      action: 'subscribe',
      topic,
      code: 401,
      message: 'unauthorized',
    });
    await comeOnline(device);
    expect(await socket.ask(ping), 'nothing was delivered').toEqual(pong);
  });

  it('logs why a request was refused, with the shard and the socket, and without the password', async () => {
    const lines: string[] = [];
    const log = vi.spyOn(console, 'info').mockImplementation((line) => void lines.push(String(line)));
    const [device, other] = [await provisionDevice(), await provisionDevice()];
    const socket = await openRelay();
    await socket.ask({ ...authOf(device), password: 'tk_wrong' });
    await socket.ask(authOf(device));
    await socket.ask({ action: 'subscribe', topic: topicOf(other, 'status') });
    await socket.ask({ action: 'publish', topic: topicOf(other, 'status'), payload: {} });
    log.mockRestore();
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const refused = parsed.filter(({ event }) => event === 'relay request refused');
    const { deviceId } = device;
    const of = { shard: shardName, socketId: refused[0]?.['socketId'] };
    expect(refused).toMatchObject([
      { ...of, action: 'auth', deviceId, kind: 'credential_refused', problem: 'wrong' },
      { ...of, action: 'subscribe', kind: 'topic_forbidden', topic: topicOf(other, 'status') },
      { ...of, action: 'publish', kind: 'topic_forbidden', topic: topicOf(other, 'status') },
    ]);
    expect(lines.join()).not.toMatch(/tk_/);
  });

  it('closes with 1008 after the third failed auth', async () => {
    const device = await provisionDevice();
    const socket = await openRelay();
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(await socket.ask({ ...authOf(device), password: 'tk_wrong' })).toMatchObject({ code: 401 });
    }
    expect(await socket.end()).toEqual({ code: 1008, reason: 'too many failed authentications' });
  });

  it('closes with 1008 a socket that does not authenticate in time', async () => {
    const late = await openRelay();
    const inTime = await listenAs(await provisionDevice());
    await runInDurableObject(shard(), (gateway, state) => {
      const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 10_001);
      return gateway.alarm().finally(() => {
        now.mockRestore();
        return state.storage.deleteAlarm();
      });
    });
    expect(await late.end()).toEqual({ code: 1008, reason: 'not authenticated in time' });
    expect(await inTime.ask(ping)).toEqual(pong);
  });

  it('plans that close ten seconds after the socket opened', async () => {
    await openRelay();
    const alarmAtMs = await runInDurableObject(shard(), (_, state) => state.storage.getAlarm());
    expect(Math.abs(alarmAtMs! - Date.now() - 10_000)).toBeLessThan(2_000);
    expect(await runDurableObjectAlarm(shard()), 'an early alarm closes nothing').toBe(true);
    expect(await runInDurableObject(shard(), (_, state) => state.storage.getAlarm())).toBe(alarmAtMs);
  });

  it('does not touch the presence of the device, neither opening nor closing', async () => {
    const device = await provisionDevice();
    const offline = await sessionOf(device.deviceId).status(1);
    const socket = await listenAs(device, topicOf(device, 'status'));
    expect(await sessionOf(device.deviceId).status(1)).toEqual(offline);
    socket.close();
    await socket.end();
    expect(await sessionOf(device.deviceId).status(1)).toEqual(offline);
  });
});

describe('subscribing', () => {
  it('refuses topics of another device and whatever leaves its own', async () => {
    const [device, other] = [await provisionDevice(), await provisionDevice()];
    const socket = await listenAs(device);
    const own = `/sys/${device.productKey}/${device.deviceId}`;
    const topics = [
      topicOf(other, 'status'),
      `/sys/${other.productKey}/${other.deviceId}/#`,
      '/sys/switch/+/status',
      '/sys/+/+/#',
      '/sys/#',
      '#',
      '+/sys',
      own,
      `${own}x/status`,
      own.slice(1) + '/status',
      `$share/group${own}/status`,
      '$SYS/#',
      `${own}/#/status`,
      `${own}/thing#`,
      `${own}/+x`,
      `${own}/a\0b`,
      `${own.toUpperCase()}/status`,
      '',
    ];
    for (const topic of topics) expect(await socket.ask({ action: 'subscribe', topic })).toEqual(forbidden(topic));
    await comeOnline(other);
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it.each([
    ['every topic below', '#', ['status', 'thing/event/property/post', 'thing/service/property/set_reply']],
    ['one level', '+', ['status']],
    ['levels in between', 'thing/+/property/+', ['thing/event/property/post', 'thing/service/property/set_reply']],
    ['a branch', 'thing/service/#', ['thing/service/property/set_reply']],
  ])('matches %s', async (_, filter, expected) => {
    const device = await provisionDevice();
    await comeOnline(device);
    const socket = await listenAs(device, `/sys/${device.productKey}/${device.deviceId}/${filter}`);
    const actions = ['status', 'thing/event/property/post', 'thing/service/property/set_reply'] as const;
    await report(...actions.map((action) => itemOf(topicOf(device, action), '{"status":"online"}')));
    for (const action of expected) {
      expect(await socket.next()).toMatchObject({ topic: `/sys/${device.productKey}/${device.deviceId}/${action}` });
    }
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('pushes a message once, however many filters match, to every subscribed socket', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const own = `/sys/${device.productKey}/${device.deviceId}`;
    const sockets = [
      await listenAs(device, topic, `${own}/#`, `${own}/thing/+/property/post`),
      await listenAs(device, topic),
    ];
    await report(itemOf(topic, '{}'));
    for (const socket of sockets) {
      expect(await socket.next()).toEqual({ topic, payload: {} });
      expect(await socket.ask(ping)).toEqual(pong);
    }
  });

  it('pushes what is not JSON as a string, and JSON of any kind as it is', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    const payloads = ['not json', '', '{"a":1} ', ' [1, "x"]\n', 'null', '"text"', '{"a":', 'é "quoted" \u0007'];
    await report(...payloads.map((payload) => itemOf(topic, payload)));
    const pushed: { payload: unknown }[] = [];
    while (pushed.length < payloads.length) pushed.push((await socket.next()) as { payload: unknown });
    expect(pushed.map(({ payload }) => payload)).toEqual([
      'not json',
      '',
      { a: 1 },
      [1, 'x'],
      null,
      'text',
      '{"a":',
      'é "quoted" \u0007',
    ]);
    expect(pushed.every((push) => Object.keys(push).join() === 'topic,payload')).toBe(true);
  });

  it('ends with unsubscribe', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    expect(await socket.ask({ action: 'unsubscribe', topic })).toEqual({
      action: 'unsubscribe',
      topic,
      code: 200,
      message: 'success',
    });
    await report(itemOf(topic, '{}'));
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('refuses unsubscribe before auth', async () => {
    const socket = await openRelay();
    expect(await socket.ask({ action: 'unsubscribe', topic: 'x' })).toMatchObject({ code: 401 });
  });

  it('allows twenty subscriptions, each counted once', async () => {
    const device = await provisionDevice();
    const topics = Array.from({ length: 20 }, (_, index) => `/sys/${device.productKey}/${device.deviceId}/${index}`);
    const socket = await listenAs(device, ...topics, topics[0]!);
    const topic = topicOf(device, 'status');
    expect(await socket.ask({ action: 'subscribe', topic })).toEqual({
      action: 'subscribe',
      topic,
      code: 400,
      message: 'invalid_request: topic: at most 20 subscriptions a socket',
    });
    await socket.ask({ action: 'unsubscribe', topic: topics[0]! });
    expect(await socket.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
  });
});

describe('frames', () => {
  it.each([
    ['{', 'error'],
    ['null', 'error'],
    ['[]', 'error'],
    ['{}', 'error'],
    ['{"action":"publish"}', 'publish'],
    ['{"action":"auth"}', 'auth'],
    ['{"action":"auth","username":1,"password":"x"}', 'auth'],
    ['{"action":"subscribe"}', 'subscribe'],
    ['{"action":"unsubscribe","topic":7}', 'unsubscribe'],
    [`{"action":"subscribe","topic":"${'x'.repeat(257)}"}`, 'subscribe'],
  ])('answers 400 to %s', async (frame, action) => {
    const socket = await openRelay();
    expect(await socket.ask(frame)).toEqual({ action, code: 400, message: 'invalid_request' });
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('answers 400 to bytes', async () => {
    const socket = await openRelay();
    expect(await socket.ask(new ArrayBuffer(5))).toEqual({ action: 'error', code: 400, message: 'invalid_request' });
  });

  it('answers a ping without an identity, in either spelling', async () => {
    const socket = await openRelay();
    expect(await socket.ask('{"action":"ping"}')).toEqual(pong);
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('takes a frame of 16 KiB and closes with 1009 on one byte more, bytes counted', async () => {
    const socket = await openRelay();
    const padded = (bytes: number) => `{"action":"ping","x":"${'é'.repeat((bytes - 24) / 2)}"}`;
    const largest = padded(maxRelayFrameBytes);
    expect(new TextEncoder().encode(largest).length).toBe(maxRelayFrameBytes);
    expect(await socket.ask(largest)).toEqual(pong);
    socket.send(`${largest} `);
    expect(await socket.end()).toEqual({ code: 1009, reason: 'frame larger than 16 KiB' });
  });

  it('answers a plain request with 400', async () => {
    const response = await send('GET', '/mqtt');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 400, data: null });
  });

  it('answers 500 when the device cannot be reached, and the frames behind it as ever', async () => {
    const device = await provisionDevice();
    const socket = await openRelay();
    const failing = { authenticate: () => Promise.reject(new Error('Durable Object is overloaded')) };
    const getByName = vi.spyOn(env.DEVICE_SESSION, 'getByName').mockReturnValueOnce(failing as never);
    try {
      socket.send(authOf(device));
      socket.send(ping);
      expect(await socket.next()).toEqual({ action: 'auth', code: 500, message: 'internal_error' });
      expect(await socket.next()).toEqual(pong);
    } finally {
      getByName.mockRestore();
    }
    expect(await socket.ask(authOf(device))).toEqual(authed);
  });
});

describe("authenticating with a user's token", () => {
  const ownerId = 4711;

  it('may subscribe to several devices of the user and to none of anybody else', async () => {
    const [one, two] = [await provisionDevice({ ownerId }), await provisionDevice({ ownerId })];
    const foreign = await provisionDevice({ ownerId: 4712 });
    const socket = await openRelay();
    expect(await socket.ask({ action: 'auth', token: await tokenOf(ownerId) })).toEqual(authed);
    for (const device of [one, two]) {
      const topic = `/sys/${device.productKey}/${device.deviceId}/#`;
      expect(await socket.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
    }
    const unavailable = [
      topicOf(foreign, 'status'),
      '/sys/switch/dev_00000000/status',
      `/sys/x/${one.deviceId}/status`,
    ];
    for (const topic of unavailable) {
      expect(await socket.ask({ action: 'subscribe', topic })).toEqual(forbidden(topic));
    }
    await Promise.all([comeOnline(foreign), comeOnline(two)]);
    expect(await socket.next()).toEqual({ topic: topicOf(two, 'status'), payload: { status: 'online' } });
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('allows two hundred subscriptions', async () => {
    const device = await provisionDevice({ ownerId });
    const socket = await openRelay();
    await socket.ask({ action: 'auth', token: await tokenOf(ownerId) });
    const topicAt = (index: number) => `/sys/${device.productKey}/${device.deviceId}/${index}`;
    for (let index = 0; index < 200; index++) {
      expect(await socket.ask({ action: 'subscribe', topic: topicAt(index) })).toMatchObject({ code: 200 });
    }
    expect(await socket.ask({ action: 'subscribe', topic: topicAt(200) })).toMatchObject({ code: 400 });
  });

  it('says so when long topics leave no room for another one', async () => {
    const device = await provisionDevice({ ownerId });
    const socket = await openRelay();
    await socket.ask({ action: 'auth', token: await tokenOf(ownerId) });
    const topicAt = (index: number) => `/sys/${device.productKey}/${device.deviceId}/${index}`.padEnd(256, 'x');
    const codes = [];
    for (let index = 0; index < 80; index++) {
      codes.push(((await socket.ask({ action: 'subscribe', topic: topicAt(index) })) as { code: number }).code);
    }
    expect(codes.indexOf(400)).toBeGreaterThan(50);
    expect(codes.lastIndexOf(200)).toBe(codes.indexOf(400) - 1);
  });

  it('closes with 1008 when the token expires, and pushes nothing after that', async () => {
    const device = await provisionDevice({ ownerId });
    const socket = await openRelay();
    const [{ accessTokenSeconds }, topic] = [readConfig(env), topicOf(device, 'status')];
    await socket.ask({ action: 'auth', token: await tokenOf(ownerId) });
    await socket.ask({ action: 'subscribe', topic });
    await runInDurableObject(shard(), async (gateway) => {
      const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + accessTokenSeconds * 1000 + 1_000);
      gateway.push([{ deviceId: device.deviceId, topic, payloads: ['"late"'] }]);
      await gateway.alarm();
      now.mockRestore();
    });
    expect(await socket.end()).toEqual({ code: 1008, reason: 'token expired' });
    await expect(Promise.race([socket.next(), Promise.resolve('nothing')])).resolves.toBe('nothing');
  });

  it('keeps the subscriptions when a fresh token of the same user comes, not when another one signs in', async () => {
    const device = await provisionDevice({ ownerId });
    const topic = topicOf(device, 'status');
    const socket = await openRelay();
    await socket.ask({ action: 'auth', token: await tokenOf(ownerId) });
    await socket.ask({ action: 'subscribe', topic });
    await socket.ask({ action: 'auth', token: await tokenOf(ownerId) });
    await comeOnline(device);
    expect(await socket.next()).toMatchObject({ topic });
    await socket.ask({ action: 'auth', token: await tokenOf(4712) });
    await comeOnline(device);
    expect(await socket.ask(ping)).toEqual(pong);
  });
});

describe('what outlives what', () => {
  it('keeps subscriptions while the shard sleeps', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    await evictDurableObject(shard());
    await report(itemOf(topic, '{"params":{}}'));
    expect(await socket.next()).toEqual({ topic, payload: { params: {} } });
    expect(await socket.ask({ action: 'subscribe', topic: topicOf(device, 'status') })).toMatchObject({ code: 200 });
  });

  it('pushes a batch once although the bridge sends it again, and although the shard slept in between', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    const items = [itemOf(topic, '{"n":1}'), itemOf(topic, '{"n":2}')];
    await report(...items);
    await report(...items);
    expect(await socket.next()).toEqual({ topic, payload: { n: 1 } });
    expect(await socket.next()).toEqual({ topic, payload: { n: 2 } });
    await evictDurableObject(shard());
    await report(...items);
    expect(await socket.ask(ping)).toEqual(pong);
    await report(itemOf(topic, '{"n":3}'));
    expect(await socket.next()).toEqual({ topic, payload: { n: 3 } });
  });

  it('pushes a message once although the broker delivers it again, and the bridge retries even that', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    await report(itemOf(topic, '{"n":1}'));
    const redelivered = { ...itemOf(topic, '{"n":1}'), dup: true };
    await report(redelivered);
    await report(redelivered);
    await report(itemOf(topic, '{"n":2}'));
    expect(await socket.next()).toEqual({ topic, payload: { n: 1 } });
    expect(await socket.next()).toEqual({ topic, payload: { n: 2 } });
  });

  it('removes a shard without subscribers from the device, and registers it again', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await listenAs(device, topic);
    expect(await listenersOf(device)).toMatchObject([{ shard: shardName }]);
    socket.close();
    await socket.end();
    await report(itemOf(topic, '{}'));
    expect(await listenersOf(device)).toEqual([]);
    const next = await listenAs(device, topic);
    await report(itemOf(topic, '{"back":true}'));
    expect(await next.next()).toEqual({ topic, payload: { back: true } });
  });

  it('does not remove a shard that registered again after the push', async () => {
    const device = await provisionDevice();
    await sessionOf(device.deviceId).subscribe(1, device.productKey, shardName, '#');
    const [seen] = await listenersOf(device);
    await sessionOf(device.deviceId).subscribe(1, device.productKey, shardName, '#');
    await sessionOf(device.deviceId).unsubscribe(shardName, seen!.registrationId);
    expect(await listenersOf(device)).toMatchObject([{ shard: shardName }]);
  });

  it('does not remove a shard while a registration of it is under way', async () => {
    const device = await provisionDevice();
    await comeOnline(device);
    const topic = topicOf(device, 'thing/event/property/post');
    const socket = await openRelay();
    const [reached, resume] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
    const getByName = vi.spyOn(env.DEVICE_SESSION, 'getByName').mockReturnValueOnce({
      authenticate: async (given: { productKey: string; passwordDigest: string; relayShard?: string }) => {
        getByName.mockRestore();
        const outcome = await sessionOf(device.deviceId).authenticate(given);
        reached.resolve(undefined);
        await resume.promise;
        return outcome;
      },
    } as never);
    socket.send(authOf(device));
    socket.send({ action: 'subscribe', topic });
    await reached.promise;
    await report(itemOf(topic, '{"missed":true}'));
    resume.resolve(undefined);
    expect(await socket.next()).toEqual(authed);
    expect(await socket.next()).toEqual(subscribed(topic));
    await report(itemOf(topic, '{"missed":false}'));
    expect(await socket.next()).toEqual({ topic, payload: { missed: false } });
  });

  it('closes sockets with the credentials of a device that is deleted, and takes its topics from users', async () => {
    const ownerId = 4713;
    const [device, kept] = [await provisionDevice({ ownerId }), await provisionDevice({ ownerId })];
    const asDevice = await listenAs(device, topicOf(device, 'status'));
    const asUser = await openRelay();
    await asUser.ask({ action: 'auth', token: await tokenOf(ownerId) });
    for (const one of [device, kept]) await asUser.ask({ action: 'subscribe', topic: topicOf(one, 'status') });
    await sessionOf(device.deviceId).delete();
    expect(await asDevice.end()).toEqual({ code: 1008, reason: 'deleted' });
    await shard().push([{ deviceId: device.deviceId, topic: topicOf(device, 'status'), payloads: ['"ghost"'] }]);
    await comeOnline(kept);
    expect(await asUser.next()).toMatchObject({ topic: topicOf(kept, 'status') });
    const again = await openRelay();
    expect(await again.ask(authOf(device))).toEqual({ action: 'auth', code: 401, message: 'device_not_found' });
  });

  it('forgets what it pushed of a device when its last socket goes', async () => {
    const device = await provisionDevice();
    const origin = { spoolId: 's', seqs: [1], results: ['accepted' as const] };
    const run = { deviceId: device.deviceId, topic: topicOf(device, 'status'), payloads: ['{}'], origin };
    expect(await shard().push([run])).toEqual({ nobodyFor: [device.deviceId] });
    const socket = await listenAs(device, topicOf(device, 'status'));
    await shard().push([run]);
    expect(await socket.next()).toMatchObject({ payload: {} });
  });

  it('answers a close with the same code', async () => {
    const socket = await openRelay();
    socket.close(4001);
    expect((await socket.end()).code).toBe(4001);
  });

  it('knows a password by its digest alone', async () => {
    const device = await provisionDevice();
    const refused = await sessionOf(device.deviceId).authenticate({
      productKey: device.productKey,
      passwordDigest: await digestOf(`${device.password}x`),
      relayShard: shardName,
    });
    expect(refused).toMatchObject({
      ok: false,
      refusal: { kind: 'credential_refused', credential: 'messaging_password', problem: 'wrong' },
    });
    expect(await listenersOf(device)).toEqual([]);
  });
});
