// The WebSocket relay (contract 6, decision: relay): who receives what, and which frames are taken.
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { maxRelayFrameBytes } from '../../../src/protocol/relay.ts';
import { send } from '../rig/clients/client.ts';
import { provisionDevice } from '../rig/provision.ts';
import {
  authed,
  authOf,
  comeOnline,
  forbidden,
  itemOf,
  listenAs,
  openRelay,
  ping,
  pong,
  report,
  subscribed,
} from '../rig/clients/relay.ts';

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
