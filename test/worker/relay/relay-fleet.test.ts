// Subscriptions to everything that is a user's: who gets what, newly made devices included, the present state first, and
// what such a subscription costs.
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { call, createUser, makeProduct } from '../rig/clients/client.ts';
import { disconnectPacket, DirectClient, publishPacket } from '../rig/clients/direct.ts';
import { provisionDevice, sessionOf, reportDisconnected } from '../rig/provision.ts';
import {
  comeOnline,
  forbidden,
  listenersOf,
  openRelay,
  ping,
  pong,
  report,
  shard,
  shardName,
  subscribed,
} from '../rig/clients/relay.ts';
import {
  everything,
  directoryOf,
  newUserId,
  listen,
  reportOf,
  pushOf,
  ownDevices,
  userWithDevice,
  registrations,
} from '../rig/fleet.ts';

describe('a subscription to everything of a user', () => {
  it('brings the messages of all devices of the user, each once, and of nobody else', async () => {
    const [userId, strangerId] = [newUserId(), newUserId()];
    const devices = await ownDevices(userId, 3);
    const [foreign] = await ownDevices(strangerId, 1);
    const [first] = devices;
    const own = `/sys/${first!.productKey}/${first!.deviceId}/#`;
    const socket = await listen(userId, everything, own, '/sys/switch/+/thing/#');
    await report(reportOf(foreign!, 'up'), ...devices.map((device) => reportOf(device, 'up')));
    const pushes = [await socket.next(), await socket.next(), await socket.next()];
    expect(pushes).toEqual(expect.arrayContaining(devices.map((device) => pushOf(device, 'up'))));
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('includes what comes later: a device that is made now, a command, an announcement of the service', async () => {
    const userId = newUserId();
    const socket = await listen(userId, everything);
    const device = await provisionDevice({ ownerId: userId });
    await comeOnline(device);
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'online' } });
    await reportDisconnected(device, null, 'gone', Date.now() + 10);
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'offline' } });
  });

  it('brings in their order what a device says on a direct connection, and what the service says of it', async () => {
    const userId = newUserId();
    const device = await provisionDevice({ ownerId: userId });
    const socket = await listen(userId, everything);
    const client = await DirectClient.connect(device);
    const topic = topicOf(device, topicActions.propertyPost);
    const positions = Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? 'up' : 'down'));
    for (const position of positions) client.send(publishPacket(topic, JSON.stringify({ params: { position } }), {}));
    client.send(disconnectPacket);
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'online' } });
    for (const position of positions) expect(await socket.next()).toEqual(pushOf(device, position));
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'offline' } });
  });

  it('stays inside one product where it names one', async () => {
    const userId = newUserId();
    const [lamp] = await ownDevices(userId, 1, 'fleet-lamp');
    const [door] = await ownDevices(userId, 1, 'fleet-door');
    const socket = await listen(userId, '/sys/fleet-door/+/thing/event/property/post');
    await report(reportOf(lamp!, 'up'), reportOf(door!, 'down'));
    expect(await socket.next()).toEqual(pushOf(door!, 'down'));
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('costs one registration, whatever the number of devices, and none of them', async () => {
    const userId = newUserId();
    const devices = await ownDevices(userId, 5);
    const sockets = [await listen(userId, everything), await listen(userId, '/sys/switch/+/status')];
    expect(await registrations(userId)).toMatchObject([{ shard: shardName }]);
    for (const device of devices) expect(await listenersOf(device)).toEqual([]);
    for (const socket of sockets) socket.close();
    await Promise.all(sockets.map((socket) => socket.end()));
    await report(reportOf(devices[0]!, 'up'));
    expect(await registrations(userId)).toEqual([]);
  });

  it('calls a device that pushed nothing only once, however often it is made again', async () => {
    const { userId, device } = await userWithDevice();
    const socket = await listen(userId);
    const endings = vi.spyOn(DeviceSession.prototype, 'endFleetLease');
    for (let times = 0; times < 5; times += 1) {
      await socket.ask({ action: 'unsubscribe', topic: everything });
      expect(await socket.ask({ action: 'subscribe', topic: everything })).toEqual(subscribed(everything));
    }
    expect(endings).toHaveBeenCalledTimes(1);
    endings.mockRestore();
    await report(reportOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
  });

  it('goes on after shard and directory were evicted', async () => {
    const { userId, device } = await userWithDevice();
    const socket = await listen(userId, everything);
    await evictDurableObject(shard());
    await evictDurableObject(directoryOf(userId));
    await evictDurableObject(sessionOf(device.deviceId));
    await report(reportOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
  });

  it('is served where the clock was set back since somebody pushed', async () => {
    const { userId, device } = await userWithDevice();
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 86_400_000);
    await report(reportOf(device, 'up'));
    vi.restoreAllMocks();
    const socket = await listen(userId, everything);
    await report(reportOf(device, 'middle'));
    expect(await socket.next()).toEqual(pushOf(device, 'middle'));
  });

  it('ends with unsubscribe, and is refused to device credentials', async () => {
    const { userId, device } = await userWithDevice();
    const socket = await listen(userId, everything);
    expect(await socket.ask({ action: 'unsubscribe', topic: everything })).toMatchObject({ code: 200 });
    await report(reportOf(device, 'up'));
    expect(await socket.ask(ping)).toEqual(pong);
    const own = await openRelay();
    await own.ask({ action: 'auth', username: device.name, password: device.password });
    expect(await own.ask({ action: 'subscribe', topic: everything })).toEqual(forbidden(everything));
  });
});

describe('a snapshot', () => {
  it('brings the present state of a device before the reply', async () => {
    const { userId, device } = await userWithDevice();
    await report(reportOf(device, 'middle'));
    const socket = await listen(userId);
    const topic = `/sys/${device.productKey}/${device.deviceId}/#`;
    socket.send({ action: 'subscribe', topic, snapshot: true });
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'online' } });
    const params = { position: 'middle' };
    expect(await socket.next()).toMatchObject({ payload: { method: 'thing.event.property.post', params } });
    expect(await socket.next()).toEqual(subscribed(topic));
    await report(reportOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
  });

  it('brings the state of all devices, limited to topics that the filter matches', async () => {
    const user = await createUser();
    const productKey = await makeProduct(user);
    const deviceIds = await Promise.all(
      ['A', 'B', 'C'].map(async (deviceSN) => {
        const body = { productKey, deviceSN };
        return (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data.deviceId;
      }),
    );
    await comeOnline({ productKey, deviceId: deviceIds[0]! });
    const socket = await listen(user.userId);
    socket.send({ action: 'subscribe', topic: '/sys/+/+/status', snapshot: true });
    const pushes = [await socket.next(), await socket.next(), await socket.next()];
    const expected = deviceIds.map((deviceId, index): unknown =>
      expect.objectContaining<object>({
        topic: topicOf({ productKey, deviceId }, 'status'),
        payload: expect.objectContaining({ status: index === 0 ? 'online' : 'offline' }) as unknown,
      }),
    );
    expect(pushes).toEqual(expect.arrayContaining(expected));
    expect(await socket.next()).toEqual(subscribed('/sys/+/+/status'));
  });

  it('of a device of somebody else is refused like the subscription', async () => {
    const [device] = await ownDevices(newUserId(), 1);
    const socket = await listen(newUserId());
    const topic = `/sys/${device!.productKey}/${device!.deviceId}/#`;
    expect(await socket.ask({ action: 'subscribe', topic, snapshot: true })).toEqual(forbidden(topic));
  });
});
