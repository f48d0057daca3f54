// What a relay shard bounds (decision: relay): sockets of an address, user and device, and what waits for a client that does
// not read. The rates of frames are in test/attacks/relay-floods.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { readConfig } from '../../../src/config.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { readClient } from '../../../src/objects/relay/shard.ts';
import { clientAddressHeader } from '../../../src/objects/calls/open-socket.ts';
import { relayShardOf } from '../../../src/objects/calls/stubs.ts';
import { send } from '../rig/clients/client.ts';
import { provisionDevice, sessionOf, replacePassword, reportConnected, type TestDevice } from '../rig/provision.ts';
import { authed, authOf, ping, pong, tokenOf } from '../rig/clients/relay.ts';
import { openSocket, type TestSocket } from '../rig/clients/socket.ts';

const { limits, relayShards } = readConfig(env);
const unauthenticatedPerAddress = limits.relaySocketsPerAddress / 10;
const socketsPerDevice = 20;
const recheckMinutes = 60;

/** Each test has an address of its own: sockets of other tests stay open. */
let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;
const from = (address: string) => ({ 'CF-Connecting-IP': address });
const openFrom = (address: string) => openSocket('/mqtt', from(address));
const openMany = (address: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => openFrom(address)));
const refusedFrom = (address: string) => send('GET', '/mqtt', { headers: { Upgrade: 'websocket', ...from(address) } });
const shardOf = (address: string) => env.RELAY_GATEWAY.getByName(relayShardOf(address, relayShards));

async function follow(device: TestDevice, address: string): Promise<TestSocket> {
  const socket = await openFrom(address);
  expect(await socket.ask(authOf(device))).toEqual(authed);
  expect(await socket.ask({ action: 'subscribe', topic: topicOf(device, 'status') })).toMatchObject({ code: 200 });
  return socket;
}

async function followNew() {
  const [device, address] = [await provisionDevice(), newAddress()];
  return { device, address, socket: await follow(device, address) };
}

/** Runs it while no shard can be told. */
async function cutOff(run: () => Promise<unknown>): Promise<void> {
  const unreachable = () => Promise.reject(new Error('the shard is overloaded'));
  const shards = { revoke: unreachable, push: unreachable };
  const getByName = vi.spyOn(env.RELAY_GATEWAY, 'getByName').mockReturnValue(shards as never);
  await run();
  getByName.mockRestore();
}

const kib = 1024;
const runOf = (device: TestDevice, payload: string) => ({
  ...{ deviceId: device.deviceId, topic: topicOf(device, 'status'), payloads: [JSON.stringify(payload)] },
  generations: [1],
});

describe('sockets of one address that have not authenticated', () => {
  it('are refused with 429 above the limit, until one authenticates or goes', async () => {
    const address = newAddress();
    const [first, second] = await openMany(address, unauthenticatedPerAddress);
    const refused = await refusedFrom(address);
    expect(refused.status).toBe(429);
    expect(refused.headers.get('Retry-After')).toBe('10');
    expect(await refused.json()).toEqual({ code: 429, message: 'too_many_requests', data: null });
    await openFrom(newAddress());
    expect(await first!.ask(authOf(await provisionDevice()))).toEqual(authed);
    await openFrom(address);
    expect((await refusedFrom(address)).status).toBe(429);
    second!.close();
    await second!.end();
    await vi.waitFor(() => openFrom(address));
  });

  it('are counted over a whole IPv6 network', async () => {
    const [one, other] = ['2001:db8:7:1::1', '2001:db8:7:1:ffff::2'];
    await Promise.all([openMany(one, 50), openMany(other, unauthenticatedPerAddress - 50)]);
    expect((await refusedFrom('2001:db8:7:1::3')).status).toBe(429);
    await openFrom('2001:db8:7:2::1');
  });

  it('are counted by the address that the Worker saw, not by one that the client names', async () => {
    const address = newAddress();
    await openMany(address, unauthenticatedPerAddress);
    const headers = { Upgrade: 'websocket', ...from(address), [clientAddressHeader]: '192.0.2.1' };
    expect((await send('GET', '/mqtt', { headers })).status).toBe(429);
  });

  it('are still known when the shard has slept', async () => {
    const address = newAddress();
    await openMany(address, unauthenticatedPerAddress);
    await evictDurableObject(shardOf(address));
    expect((await refusedFrom(address)).status).toBe(429);
  });
});

describe('sockets of one user or device', () => {
  it('close the oldest one of the device above the limit, also after the shard has slept', async () => {
    const [device, address] = [await provisionDevice(), newAddress()];
    const sockets: TestSocket[] = [];
    for (let index = 0; index < socketsPerDevice; index++) sockets.push(await follow(device, address));
    await evictDurableObject(shardOf(address));
    const newest = await follow(device, address);
    expect(await sockets[0]!.end()).toEqual({ code: 1008, reason: 'too many sockets of this device' });
    expect(await sockets[1]!.ask(ping)).toEqual(pong);
    expect(await newest.ask(ping)).toEqual(pong);
  });

  it('close the oldest one of the user above the limit, not one that only authenticates again', async () => {
    const [token, address] = [await tokenOf(5_001), newAddress()];
    const sockets: TestSocket[] = [];
    for (let index = 0; index < limits.relaySocketsPerUser; index++) {
      const socket = await openFrom(address);
      sockets.push(socket);
      expect(await socket.ask({ action: 'auth', token })).toEqual(authed);
    }
    expect(await sockets[5]!.ask({ action: 'auth', token })).toEqual(authed);
    expect(await sockets[0]!.ask(ping)).toEqual(pong);
    expect(await (await openFrom(address)).ask({ action: 'auth', token })).toEqual(authed);
    expect(await sockets[0]!.end()).toEqual({ code: 1008, reason: 'too many sockets of this user' });
    expect(await sockets[1]!.ask(ping)).toEqual(pong);
  });
});

describe('a client that is sent much', () => {
  const large = 'x'.repeat(256 * kib);

  it('is asked whether it reads, and goes on when it answers', async () => {
    const { device, address, socket } = await followNew();
    const rounds = (2 * limits.relayUnreadBytesPerSocket) / large.length;
    for (let round = 0; round < rounds; round++) {
      await shardOf(address).push([runOf(device, large)]);
      expect(await socket.next()).toMatchObject({ payload: large });
      const check = (await socket.next()) as { action: string; id: string };
      expect(check).toEqual({ action: 'ping', id: expect.any(String) as string });
      socket.send({ action: 'pong', id: check.id });
    }
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('is closed with 1013 when it does not answer', async () => {
    const { device, address, socket } = await followNew();
    const rounds = limits.relayUnreadBytesPerSocket / large.length + 1;
    for (let round = 0; round < rounds; round++) {
      socket.send({ action: 'pong', id: crypto.randomUUID() });
      await shardOf(address).push([runOf(device, large)]);
    }
    expect(await socket.end()).toEqual({ code: 1013, reason: 'too much unread' });
    expect(await shardOf(address).push([runOf(device, 'more')])).toMatchObject({ nobodyFor: [device.deviceId] });
  });

  it('is closed in the same way by the answers to its own frames', async () => {
    const { device, address, socket } = await followNew();
    await shardOf(address).push([runOf(device, 'x'.repeat(limits.relayUnreadBytesPerSocket))]);
    socket.send(ping);
    expect(await socket.end()).toEqual({ code: 1013, reason: 'too much unread' });
  });
});

describe('a socket whose credentials have ended, where the shard did not hear of it', () => {
  it.each<[string, (device: TestDevice) => Promise<unknown>]>([
    ['was rotated', (device) => replacePassword(device)],
    [
      'was disabled and enabled again',
      async ({ deviceId }) => {
        await sessionOf(deviceId).decide({ kind: 'administered', actor: inPerson(1), change: { isDisabled: true } });
        await sessionOf(deviceId).decide({ kind: 'administered', actor: inPerson(1), change: { isDisabled: false } });
      },
    ],
  ])('is closed by the first message after the device %s', async (_, change) => {
    const { device, socket } = await followNew();
    await cutOff(() => change(device));
    expect(await socket.ask(ping), 'the shard heard of nothing').toEqual(pong);
    await sessionOf(device.deviceId).authenticate({
      productKey: device.productKey,
      passwordDigest: 'digest-of-another-password',
    });
    await reportConnected(device);
    expect(await socket.end()).toEqual({ code: 1008, reason: 'credentials_rotated' });
  });

  it('is closed though the device stays silent, when the shard asks for it again', async () => {
    const { device, address, socket } = await followNew();
    const fine = await follow(await provisionDevice(), address);
    await cutOff(() => replacePassword(device));
    await runInDurableObject(shardOf(address), async (gateway) => {
      const nowMs = Date.now();
      const clock = vi.spyOn(Date, 'now');
      for (let minute = 1; minute <= recheckMinutes; minute += 1) {
        clock.mockReturnValue(nowMs + minute * 60_000);
        await gateway.alarm();
      }
      clock.mockRestore();
    });
    expect(await socket.end()).toEqual({ code: 1008, reason: 'credentials_rotated' });
    expect(await fine.ask(ping)).toEqual(pong);
  });
});

it('looks for late sockets once a second at most', async () => {
  const address = newAddress();
  await openFrom(address);
  const { lookedAtMs, plannedMs } = await runInDurableObject(shardOf(address), async (gateway, state) => {
    const clients = state.getWebSockets().map(readClient);
    // 10 ms before its time to authenticate is over.
    const lookedAtMs = clients.find((client) => client.address === address)!.openedAtMs + 9_990;
    const clock = vi.spyOn(Date, 'now').mockReturnValue(lookedAtMs);
    await state.storage.deleteAlarm();
    await gateway.alarm();
    clock.mockRestore();
    const plannedMs = await state.storage.getAlarm();
    await state.storage.deleteAlarm();
    return { lookedAtMs, plannedMs };
  });
  expect(plannedMs).toBe(lookedAtMs + 1_000);
});
