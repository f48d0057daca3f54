// The WebSocket relay (contract 6, decision: relay): who signs in, as a device or with a user's token, and until when.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { readConfig } from '../../../src/config.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../rig/provision.ts';
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
  shard,
  shardName,
  subscribed,
  tokenOf,
} from '../rig/clients/relay.ts';

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
    ['an unknown device', (device) => ({ ...authOf(device), username: 'switch&dev_00000000' }), 'invalid_password'],
    ['another product', (device) => ({ ...authOf(device), username: `x&${device.deviceId}` }), 'invalid_password'],
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
    await runInDurableObject(shard(), async (gateway, state) => {
      const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 10_001);
      try {
        await gateway.alarm();
      } finally {
        now.mockRestore();
        await state.storage.deleteAlarm();
      }
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
    const offline = await sessionOf(device.deviceId).status(inPerson(1));
    const socket = await listenAs(device, topicOf(device, 'status'));
    expect(await sessionOf(device.deviceId).status(inPerson(1))).toEqual(offline);
    socket.close();
    await socket.end();
    expect(await sessionOf(device.deviceId).status(inPerson(1))).toEqual(offline);
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
      await gateway.push([{ deviceId: device.deviceId, topic, payloads: ['"late"'], generations: [1] }]);
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
