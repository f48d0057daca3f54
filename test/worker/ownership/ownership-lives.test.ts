// What one owner's life of a device leaves to the next (decision: ownership), with the device connected directly: its session,
// its presence, and what anybody of the former life still sees or can do.
import { evictDurableObject } from 'cloudflare:test';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { TestBridge } from '../rig/clients/bridge.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { call, createUser, send, type TestUser } from '../rig/clients/client.ts';
import { DirectClient, publishPacket, readPublish, subscribePacket } from '../rig/clients/direct.ts';
import {
  activate as activateOf,
  anna,
  bert,
  createProduct,
  eventsOf as eventsFor,
  handOver,
  listed,
  maker,
  refused,
  signUpUsers,
  tokenOf,
} from '../rig/ownership.ts';
import { sessionOf, type TestDevice } from '../rig/provision.ts';
import { authOf, forbidden, listenAs, openRelay, ping, pong } from '../rig/clients/relay.ts';
import type { TestSocket } from '../rig/clients/socket.ts';

const { propertyPost, propertySet } = topicActions;
const everything = '/sys/+/+/#';
let productKey: string;
let bridge: TestBridge;
beforeAll(async () => {
  bridge = await TestBridge.dialIn();
});
afterAll(() => bridge.close());
beforeEach(async () => {
  await signUpUsers();
  productKey = await createProduct();
});

const ask = (user: TestUser, method: string, path: string, body?: object) =>
  call<Record<string, unknown>>(method, path, { token: user.token, ...(body && { body }) });
const of = async (user: TestUser, { deviceId }: TestDevice, path: string) =>
  (await ask(user, 'GET', `/devices/${deviceId}${path}`)).data;
const eventsOf = async (user: TestUser, { deviceId }: TestDevice) =>
  (await eventsFor(user, deviceId)).map(({ status, reason }) => `${status} ${reason}`);

async function activate(by?: TestUser): Promise<TestDevice> {
  const { data, message } = await activateOf(productKey, by && (await tokenOf(by)));
  expect(message).toBe('success');
  return { productKey, deviceId: data.deviceId, name: data.mqtt.username, password: data.mqtt.password };
}

/** The frames up to the first that holds `text`, this one included. */
async function heard(socket: TestSocket, text: string): Promise<unknown[]> {
  const frames: unknown[] = [];
  while (!JSON.stringify(frames.at(-1) ?? null).includes(text)) frames.push(await socket.next());
  return frames;
}

/** What was pushed to the socket before now. */
async function pushedTo(socket: TestSocket): Promise<unknown[]> {
  socket.send(ping);
  const frames = [];
  for (let frame = await socket.next(); JSON.stringify(frame) !== JSON.stringify(pong); frame = await socket.next()) {
    frames.push(frame);
  }
  return frames;
}

async function say(client: DirectClient, device: TestDevice, text: string): Promise<void> {
  client.send(publishPacket(topicOf(device, propertyPost), JSON.stringify({ params: { text } }), { packetId: 7 }));
  expect((await client.next()).type).toBe(4);
}

/** Whether the device is let in on a direct connection. */
async function mayConnect(device: TestDevice): Promise<boolean> {
  try {
    await DirectClient.connect(device);
    return true;
  } catch {
    return false;
  }
}

it('a claim ends the session of an earlier activation, and none of its messages reach the new owner', async () => {
  const before = await activate();
  const stranger = await DirectClient.connect(before);
  await say(stranger, before, 'former');
  stranger.send(publishPacket(topicOf(before, propertyPost), 'not understood', { packetId: 8 }));
  expect((await stranger.next()).type).toBe(4);
  const [makers, annas] = [await listenAs(maker, everything), await listenAs(anna, everything)];
  // Reports all the time, also in the very moment of the claim.
  const topic = topicOf(before, propertyPost);
  const flood = Array.from({ length: 20 }, () => publishPacket(topic, '{"params":{"text":"flood"}}'));
  stranger.send(...flood);
  const claiming = activate(anna);
  for (let round = 0; round < 10; round++) {
    stranger.send(...flood);
    await Promise.resolve();
  }
  const device = await claiming;
  expect(device.deviceId).toBe(before.deviceId);
  expect(await stranger.untilClosed()).toMatchObject({ reason: 'revoked' });
  expect(await of(anna, device, '/status')).toMatchObject({ online: false, lastOnlineAt: null });
  expect(await of(anna, device, '/properties')).toMatchObject({ list: [], positionChanges: [], lastRejected: null });
  await evictDurableObject(sessionOf(device.deviceId));
  expect(await of(anna, device, '/properties'), 'after a sleep').toMatchObject({ list: [], lastRejected: null });
  expect(await eventsOf(anna, device)).toEqual(['ownership claimed', 'activated open']);
  expect(await mayConnect(before)).toBe(false);
  const client = await DirectClient.connect(device);
  expect(await of(anna, device, '/status')).toMatchObject({ online: true });
  await say(client, device, 'own');
  expect(JSON.stringify(await heard(annas, '"text":"own"')), 'pushed to the new owner').not.toContain('flood');
  expect(JSON.stringify(await of(anna, device, '/properties'))).not.toContain('flood');
  expect(JSON.stringify(await pushedTo(makers))).not.toContain('own');
  for (const socket of [makers, annas]) socket.close();
});

it('an accepted transfer leaves the direct session open, and it is the new owner who hears and commands it', async () => {
  const device = await activate();
  const client = await DirectClient.connect(device);
  client.send(subscribePacket(topicOf(device, propertySet)));
  await client.next();
  await say(client, device, 'former');
  const makers = [await listenAs(maker, topicOf(device, propertyPost)), await listenAs(maker, everything)];
  const berts = await listenAs(bert, everything);
  await handOver(device.deviceId, maker);
  expect(await of(bert, device, '/status')).toMatchObject({ online: true, status: 'online' });
  expect(await of(bert, device, '/properties')).toMatchObject({ list: [] });
  expect(await eventsOf(bert, device)).toEqual(['ownership transferred']);
  await say(client, device, 'next');
  await heard(berts, '"text":"next"');
  for (const socket of makers) expect(JSON.stringify(await pushedTo(socket))).not.toContain('next');
  const control = (user: TestUser) =>
    ask(user, 'POST', `/devices/${device.deviceId}/control`, { action: 'toggle', position: 'up' });
  expect(await control(maker)).toMatchObject({ code: 403 });
  expect(await control(bert)).toMatchObject({ code: 200 });
  expect(readPublish(await client.next()).payload).toContain('"up"');
  for (const socket of [...makers, berts]) socket.close();
});

it('story: buy second-hand, pair anew: it works for the new owner, and shuts out the former one with everything that was theirs', async () => {
  const device = await activate(anna);
  const { deviceId } = device;
  const client = await DirectClient.connect(device);
  const topic = topicOf(device, propertyPost);
  const friend = await createUser();
  const invited = await ask(anna, 'POST', `/devices/${deviceId}/members`, { email: friend.email, role: 'operator' });
  await ask(friend, 'POST', `/invitations/${invited.data['invitationId'] as string}/accept`);
  const late = await ask(anna, 'POST', `/devices/${deviceId}/members`, { email: maker.email, role: 'viewer' });
  const key = await createKey(anna);
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const link = await ask(anna, 'POST', `/devices/${deviceId}/guest-links`, {
    command: { action: 'trigger' },
    expiresAt,
  });
  const guestPath = new URL(link.data['url'] as string).pathname;
  const former = [
    await listenAs(anna, topic),
    await listenAs(anna, everything),
    await listenAs(friend, topic),
    await listenAs(friend, everything),
  ];
  const asDevice = await listenAs(device, topic);
  await say(client, device, 'former');
  for (const socket of [...former, asDevice]) await heard(socket, '"text":"former"');
  const queued = await ask(anna, 'POST', `/devices/${deviceId}/control?ttl=600`, { action: 'toggle', position: 'up' });
  expect(queued).toMatchObject({ code: 200 });

  // Sold without a release the buyer cannot take it; the seller can still release it.
  expect(await activateOf(productKey, await tokenOf(bert))).toMatchObject(refused);
  expect(await of(anna, device, '/status')).toMatchObject({ online: true });
  await ask(anna, 'POST', `/devices/${deviceId}/release`);
  expect(await client.untilClosed()).toMatchObject({ reason: 'revoked' });
  expect(await asDevice.end()).toMatchObject({ code: 1008 });
  expect(await of(maker, device, '/status')).toMatchObject({ online: false, position: null, lastOnlineAt: null });
  expect(await of(maker, device, '/properties')).toMatchObject({ list: [] });
  expect(await of(maker, device, '/commands')).toMatchObject({ total: 0 });
  const released = { status: 'ownership', reason: 'released', address: null };
  expect(await eventsFor(maker, deviceId)).toMatchObject([released]);
  expect(await listed(maker)).toContain(deviceId);
  const figures = await call('GET', `/products/${productKey}/figures`, { token: maker.token });
  expect(figures.data).toMatchObject({ devices: 1, claimed: 0 });

  const paired = await activate(bert);
  expect(paired.deviceId).toBe(deviceId);
  const berts = await listenAs(bert, everything);
  const own = await DirectClient.connect(paired);
  own.send(subscribePacket(topicOf(device, propertySet)));
  await own.next();
  await say(own, paired, 'next');
  await heard(berts, '"text":"next"');
  expect(JSON.stringify([await of(bert, device, '/properties'), await eventsOf(bert, device)])).not.toContain('former');
  expect(await of(bert, device, '/members')).toMatchObject({ total: 0 });
  expect(await of(bert, device, '/guest-links')).toMatchObject({ total: 0 });
  expect(await of(bert, device, '/status')).toMatchObject({ online: true, deviceName: 'Switch -1' });

  for (const socket of former) expect(JSON.stringify(await pushedTo(socket))).not.toContain('next');
  for (const [index, user] of [anna, anna, friend, friend].entries()) {
    expect(await former[index]!.ask({ action: 'subscribe', topic }), String(user.userId)).toEqual(forbidden(topic));
  }
  const reads = ['', '/status', '/events', '/properties', '/commands', '/members', '/guest-links', '/ownership'];
  for (const path of reads) {
    for (const token of [anna.token, friend.token, maker.token]) {
      expect((await call('GET', `/devices/${deviceId}${path}`, { token })).status, path).toBe(403);
    }
    const { status } = await call('GET', `/devices/${deviceId}${path}`, { key });
    expect([401, 403], path).toContain(status);
  }
  for (const user of [anna, friend, maker]) {
    expect(await ask(user, 'POST', `/devices/${deviceId}/control`, { action: 'trigger' })).toMatchObject({
      code: 403,
    });
    expect(await ask(user, 'GET', '/devices')).toMatchObject({ data: { total: 0, list: [] } });
  }
  const keyed = { key, body: { action: 'trigger' } };
  expect((await call('POST', `/devices/${deviceId}/control`, keyed)).status).toBe(403);
  const invitation = `/invitations/${late.data['invitationId'] as string}/accept`;
  expect((await ask(maker, 'POST', invitation)).code, 'an invitation of the former owner').toBe(404);
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
  expect((await send('POST', guestPath, { headers, body: '' })).status).toBeGreaterThanOrEqual(400);
  expect(own.unread, 'no command reached the device').toEqual([]);
  expect(await mayConnect(device)).toBe(false);
  const asFormer = await openRelay();
  expect(await asFormer.ask(authOf(device))).toMatchObject({ code: 401 });
  expect(await of(bert, device, '/status'), 'undisturbed').toMatchObject({ online: true });
  for (const socket of [...former, berts, asFormer]) socket.close();
});
