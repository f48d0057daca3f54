// The WebSocket relay (contract 6, decision: relay): hibernation, retries, races and deletions neither lose nor double a
// push.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { createMessagingPassword } from '../../../src/crypto/messaging-password.ts';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { factsOf, provisionDevice, sessionOf, requestSubscription } from '../rig/provision.ts';
import {
  authed,
  authOf,
  comeOnline,
  itemOf,
  listenAs,
  listenersOf,
  openRelay,
  ping,
  pong,
  report,
  shard,
  shardName,
  subscribed,
  tokenOf,
} from '../rig/clients/relay.ts';

async function listenToReports() {
  const device = await provisionDevice();
  await comeOnline(device);
  const topic = topicOf(device, 'thing/event/property/post');
  return { device, topic, socket: await listenAs(device, topic) };
}

it('pushes a batch once although the bridge sends it again, and although the shard slept in between', async () => {
  const { topic, socket } = await listenToReports();
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
  const { topic, socket } = await listenToReports();
  await report(itemOf(topic, '{"n":1}'));
  const redelivered = { ...itemOf(topic, '{"n":1}'), dup: true };
  await report(redelivered);
  await report(redelivered);
  await report(itemOf(topic, '{"n":2}'));
  expect(await socket.next()).toEqual({ topic, payload: { n: 1 } });
  expect(await socket.next()).toEqual({ topic, payload: { n: 2 } });
});

it('removes a shard without subscribers from the device, and registers it again', async () => {
  const { device, topic, socket } = await listenToReports();
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
  await requestSubscription(device, shardName);
  const [seen] = await listenersOf(device);
  await requestSubscription(device, shardName);
  await sessionOf(device.deviceId).decide({
    kind: 'subscription_ended',
    shard: shardName,
    registrationId: seen!.registrationId,
  });
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
  const asUser = await listenAs({ token: await tokenOf(ownerId) }, topicOf(device, 'status'), topicOf(kept, 'status'));
  await sessionOf(device.deviceId).decide({ kind: 'deleted', actor: null });
  expect(await asDevice.end()).toEqual({ code: 1008, reason: 'deleted' });
  await shard().push([
    { deviceId: device.deviceId, topic: topicOf(device, 'status'), payloads: ['"ghost"'], generations: [1] },
  ]);
  await comeOnline(kept);
  expect(await asUser.next()).toMatchObject({ topic: topicOf(kept, 'status') });
  const again = await openRelay();
  expect(await again.ask(authOf(device))).toEqual({ action: 'auth', code: 401, message: 'device_not_found' });
});

it('ends the sockets of one credential, and leaves those of others, also where it missed that one ended', async () => {
  const device = await provisionDevice();
  const topic = topicOf(device, 'status');
  const password = await createMessagingPassword(readConfig(env).messagingSecrets, device);
  const facts = factsOf({ productKey: device.productKey, passwordDigest: await digestOf(password) });
  await sessionOf(device.deviceId).provision(facts);
  const newer = { ...device, password };
  const [one, two] = [await listenAs(device, topic), await listenAs(device, topic)];
  const [other, user] = [await listenAs(newer, topic), await listenAs({ token: await tokenOf(1) }, topic)];
  await runInDurableObject(shard(), (gateway) => gateway.revoke(device.deviceId, 'credentials_rotated', [1, 2]));
  expect(await one.ask(ping), 'none of them ended').toEqual(pong);
  const run = { deviceId: device.deviceId, topic };
  await shard().push([
    { ...run, payloads: ['"before"'], generations: [1, 2] },
    { ...run, payloads: ['"news"'], generations: [2] },
  ]);
  for (const socket of [one, two, other, user]) expect(await socket.next()).toEqual({ topic, payload: 'before' });
  for (const socket of [one, two]) {
    expect(await socket.end()).toEqual({ code: 1008, reason: 'credentials_rotated' });
    await expect(Promise.race([socket.next(), Promise.resolve('nothing')])).resolves.toBe('nothing');
  }
  for (const socket of [other, user]) expect(await socket.next()).toEqual({ topic, payload: 'news' });
  await runInDurableObject(shard(), (gateway) => gateway.revoke(device.deviceId, 'credentials_rotated', [3]));
  expect(await other.end()).toEqual({ code: 1008, reason: 'credentials_rotated' });
});
