// A device that uses the relay as its only channel: what it may say there, and what that does.
import { expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions, type TopicAction } from '../../../src/protocol/mqtt.ts';
import { call, makeDevice } from '../rig/clients/client.ts';
import { bridge, owner, prepareOwnerAndBridge } from '../rig/commands.ts';
import type { TestDevice } from '../rig/provision.ts';
import { listenAs } from '../rig/clients/relay.ts';

const { propertyPost, propertySet, propertySetReply, status } = topicActions;

prepareOwnerAndBridge();

const activate = () => makeDevice(owner);

const publish = (device: TestDevice, action: TopicAction, payload: unknown) => ({
  action: 'publish',
  topic: topicOf(device, action),
  payload,
});
const published = (device: TestDevice, action: TopicAction) => ({
  action: 'publish',
  topic: topicOf(device, action),
  code: 200,
  message: 'success',
});

async function read<T>({ deviceId }: TestDevice, path: string): Promise<T> {
  return (await call<T>('GET', `/devices/${deviceId}${path}`, { token: owner.token })).data;
}

it.each([
  ['as JSON', { params: { position: 'up' } }],
  ['as text', '{"params":{"position":"up"}}'],
])('takes a report %s, changes what is known, and shows it to subscribers', async (_, payload) => {
  const device = await activate();
  const [socket, watcher] = [await listenAs(device), await listenAs(owner, topicOf(device, propertyPost))];
  expect(await socket.ask(publish(device, propertyPost, payload))).toEqual(published(device, propertyPost));
  expect(await watcher.next()).toEqual({
    topic: topicOf(device, propertyPost),
    payload: { params: { position: 'up' } },
  });
  expect(await read(device, '/status')).toMatchObject({ position: 'up' });
  socket.close();
  watcher.close();
});

it('answers a command that the device heard on the relay, though the broker knew of no subscriber', async () => {
  const device = await activate();
  const socket = await listenAs(device, topicOf(device, propertySet));
  bridge.hasSubscribers = false;
  const answering = call<{ state: string; commandId: string }>('POST', `/devices/${device.deviceId}/control?wait=5`, {
    token: owner.token,
    body: { action: 'toggle', position: 'up' },
  });
  const { payload } = (await socket.next()) as { payload: { id: string } };
  await socket.ask(publish(device, propertySetReply, { id: payload.id, code: 200 }));
  const { data } = await answering;
  expect(data).toMatchObject({ commandId: payload.id, state: 'acknowledged' });
  await socket.ask(publish(device, propertyPost, { position: 'up' }));
  expect(await read(device, `/commands/${payload.id}`)).toMatchObject({ state: 'confirmed' });
  socket.close();
});

it('never changes presence, neither by a report nor by an announcement', async () => {
  const device = await activate();
  const socket = await listenAs(device);
  await socket.ask(publish(device, propertyPost, { position: 'up' }));
  expect(await socket.ask(publish(device, status, { status: 'online' }))).toEqual(published(device, status));
  expect(await read(device, '/status')).toMatchObject({ online: false, lastOnlineAt: null });
  expect(await read(device, '/events')).toMatchObject({ list: [{ status: 'activated' }] });
  socket.close();
});

it('refuses other topics, other devices, wildcards and commands', async () => {
  const [device, other] = [await activate(), await activate()];
  const socket = await listenAs(device);
  for (const topic of [
    topicOf(other, propertyPost),
    topicOf(device, propertySet),
    `/sys/${device.productKey}/${device.deviceId}/+`,
    `/sys/${device.productKey}/${device.deviceId}/thing/event/other/post`,
    '$SYS/broker',
  ]) {
    const answer = await socket.ask({ action: 'publish', topic, payload: { position: 'up' } });
    expect(answer).toEqual({ action: 'publish', topic, code: 403, message: 'forbidden' });
  }
  socket.close();
});

it('needs a payload and a topic', async () => {
  const device = await activate();
  const socket = await listenAs(device);
  for (const frame of [
    { action: 'publish', topic: topicOf(device, propertyPost) },
    { action: 'publish', payload: {} },
  ]) {
    expect(await socket.ask(frame)).toEqual({ action: 'publish', code: 400, message: 'invalid_request' });
  }
  socket.close();
});
