// The WebSocket relay (contract 6, decision: relay): how long a user's token lasts, which frames are taken, what the log says.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { send } from '../rig/clients/client.ts';
import { provisionDevice } from '../rig/provision.ts';
import {
  authed,
  authOf,
  comeOnline,
  listenAs,
  openRelay,
  ping,
  pong,
  shard,
  shardName,
  tokenOf,
} from '../rig/clients/relay.ts';

it('the log says why a request was refused, with the shard and the socket, and without the password', async () => {
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

describe("authenticating with a user's token", () => {
  const ownerId = 4711;

  it('says so when long topics leave no room for another one', async () => {
    const device = await provisionDevice({ ownerId });
    const socket = await listenAs({ token: await tokenOf(ownerId) });
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
    const [{ accessTokenSeconds }, topic] = [readConfig(env), topicOf(device, 'status')];
    const socket = await listenAs({ token: await tokenOf(ownerId) }, topic);
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
    const token = await tokenOf(ownerId);
    const socket = await listenAs({ token }, topic);
    await socket.ask({ action: 'auth', token });
    await comeOnline(device);
    expect(await socket.next()).toMatchObject({ topic });
    await socket.ask({ action: 'auth', token: await tokenOf(4712) });
    await comeOnline(device);
    expect(await socket.ask(ping)).toEqual(pong);
  });
});

describe('frames', () => {
  it.each(['unsubscribe', 'publish'])('refuses %s before auth', async (action) => {
    const socket = await openRelay();
    expect(await socket.ask({ action, topic: '/sys/switch/x/status', payload: {} })).toMatchObject({ code: 401 });
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
