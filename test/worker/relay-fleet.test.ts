// Subscriptions to everything that is a user's: who gets what, newly made devices included, the present state first, and
// what such a subscription costs.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { topicOf, type DeviceIdentity } from '../../src/domain/topics.ts';
import { FleetDirectory } from '../../src/durable/fleet-directory.ts';
import { PushedMessages } from '../../src/durable/relay-pushed.ts';
import { limitsSchema } from '../../src/limits.ts';
import { RelaySnapshots } from '../../src/durable/relay-snapshots.ts';
import { topicActions } from '../../src/protocol/mqtt.ts';
import { call, createUser } from '../rig/workerd/client.ts';
import { disconnectPacket, EdgeClient, publishPacket } from '../rig/workerd/edge.ts';
import { provisionDevice, sessionOf } from '../rig/workerd/provision.ts';
import {
  authed,
  comeOnline,
  forbidden,
  itemOf,
  listenersOf,
  openRelay,
  ping,
  pong,
  report,
  shard,
  shardName,
  subscribed,
  tokenOf,
} from '../rig/workerd/relay.ts';
import type { TestSocket } from '../rig/workerd/socket.ts';

const everything = '/sys/+/+/#';
const directory = () => env.FLEET_DIRECTORY.getByName('fleets');

let lastUserId = 1_000;

async function signIn(userId: number): Promise<TestSocket> {
  const socket = await openRelay();
  expect(await socket.ask({ action: 'auth', token: await tokenOf(userId) })).toEqual(authed);
  return socket;
}

async function listen(userId: number, ...topics: string[]): Promise<TestSocket> {
  const socket = await signIn(userId);
  for (const topic of topics) expect(await socket.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
  return socket;
}

const reportOf = (device: DeviceIdentity, position: string) =>
  itemOf(topicOf(device, topicActions.propertyPost), JSON.stringify({ params: { position } }));
const pushOf = (device: DeviceIdentity, position: string) => ({
  topic: topicOf(device, topicActions.propertyPost),
  payload: { params: { position } },
});

/** Without their first announcements. */
async function ownDevices(ownerId: number, count: number, productKey = 'switch') {
  const devices = await Promise.all(Array.from({ length: count }, () => provisionDevice({ ownerId, productKey })));
  for (const device of devices) await comeOnline(device);
  return devices;
}

async function registrations(userId: number) {
  const copy = await directory().read('');
  return (copy.registrations ?? []).filter((one) => one.userId === userId);
}

describe('a subscription to everything of a user', () => {
  it('brings the messages of all devices of the user, each once, and of nobody else', async () => {
    const [userId, strangerId] = [++lastUserId, ++lastUserId];
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
    const userId = ++lastUserId;
    const socket = await listen(userId, everything);
    const device = await provisionDevice({ ownerId: userId });
    await comeOnline(device);
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'online' } });
    await sessionOf(device.deviceId).reportConnection({
      kind: 'disconnected',
      sessionStartedAtMs: null,
      endedAtMs: Date.now() + 10,
      reason: 'gone',
    });
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'offline' } });
  });

  it('brings in their order what a device says at the edge, and what the service says of it', async () => {
    const userId = ++lastUserId;
    const device = await provisionDevice({ ownerId: userId });
    const socket = await listen(userId, everything);
    const client = await EdgeClient.connect(device);
    const topic = topicOf(device, topicActions.propertyPost);
    const positions = Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? 'up' : 'down'));
    for (const position of positions) client.send(publishPacket(topic, JSON.stringify({ params: { position } }), {}));
    client.send(disconnectPacket);
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'online' } });
    for (const position of positions) expect(await socket.next()).toEqual(pushOf(device, position));
    expect(await socket.next()).toMatchObject({ topic: topicOf(device, 'status'), payload: { status: 'offline' } });
  });

  it('stays inside one product where it names one', async () => {
    const userId = ++lastUserId;
    const [lamp] = await ownDevices(userId, 1, 'fleet-lamp');
    const [door] = await ownDevices(userId, 1, 'fleet-door');
    const socket = await listen(userId, '/sys/fleet-door/+/thing/event/property/post');
    await report(reportOf(lamp!, 'up'), reportOf(door!, 'down'));
    expect(await socket.next()).toEqual(pushOf(door!, 'down'));
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('costs one registration, whatever the number of devices, and none of them', async () => {
    const userId = ++lastUserId;
    const devices = await ownDevices(userId, 5);
    const sockets = [await listen(userId, everything), await listen(userId, '/sys/switch/+/status')];
    expect(await registrations(userId)).toMatchObject([{ userId, shard: shardName }]);
    for (const device of devices) expect(await listenersOf(device)).toEqual([]);
    for (const socket of sockets) socket.close();
    await Promise.all(sockets.map((socket) => socket.end()));
    await report(reportOf(devices[0]!, 'up'));
    expect(await registrations(userId)).toEqual([]);
  });

  it('goes on after shard and directory were evicted', async () => {
    const userId = ++lastUserId;
    const [device] = await ownDevices(userId, 1);
    const socket = await listen(userId, everything);
    await evictDurableObject(shard());
    await evictDurableObject(directory());
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
  });

  it('is served where the clock was set back since somebody pushed', async () => {
    const userId = ++lastUserId;
    const [device] = await ownDevices(userId, 1);
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 86_400_000);
    await report(reportOf(device!, 'up'));
    vi.restoreAllMocks();
    const socket = await listen(userId, everything);
    await report(reportOf(device!, 'middle'));
    expect(await socket.next()).toEqual(pushOf(device!, 'middle'));
  });

  it('ends with unsubscribe, and is refused to device credentials', async () => {
    const userId = ++lastUserId;
    const [device] = await ownDevices(userId, 1);
    const socket = await listen(userId, everything);
    expect(await socket.ask({ action: 'unsubscribe', topic: everything })).toMatchObject({ code: 200 });
    await report(reportOf(device!, 'up'));
    expect(await socket.ask(ping)).toEqual(pong);
    const own = await openRelay();
    await own.ask({ action: 'auth', username: device!.name, password: device!.password });
    expect(await own.ask({ action: 'subscribe', topic: everything })).toEqual(forbidden(everything));
  });
});

describe('a snapshot', () => {
  it('brings the present state of a device before the reply', async () => {
    const userId = ++lastUserId;
    const [device] = await ownDevices(userId, 1);
    await report(reportOf(device!, 'middle'));
    const socket = await signIn(userId);
    const topic = `/sys/${device!.productKey}/${device!.deviceId}/#`;
    socket.send({ action: 'subscribe', topic, snapshot: true });
    expect(await socket.next()).toMatchObject({ topic: topicOf(device!, 'status'), payload: { status: 'online' } });
    const params = { position: 'middle' };
    expect(await socket.next()).toMatchObject({ payload: { method: 'thing.event.property.post', params } });
    expect(await socket.next()).toEqual(subscribed(topic));
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
  });

  it('brings that of all devices, and of what the filter matches alone', async () => {
    const user = await createUser();
    const productKey = `snapshot-${crypto.randomUUID()}`;
    await call('POST', '/products', { token: user.token, body: { productKey, name: 'Switch' } });
    const deviceIds = await Promise.all(
      ['A', 'B', 'C'].map(async (deviceSN) => {
        const body = { productKey, deviceSN };
        return (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data.deviceId;
      }),
    );
    await comeOnline({ productKey, deviceId: deviceIds[0]! });
    const socket = await signIn(user.userId);
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
    const [device] = await ownDevices(++lastUserId, 1);
    const socket = await signIn(++lastUserId);
    const topic = `/sys/${device!.productKey}/${device!.deviceId}/#`;
    expect(await socket.ask({ action: 'subscribe', topic, snapshot: true })).toEqual(forbidden(topic));
  });
});

describe('limits', () => {
  const limited = (limits: string) => ({ ...env, LIMITS: limits }) as unknown as Env;
  const directoryWith = <T>(limits: string, run: (directory: FleetDirectory) => Promise<T>): Promise<T> =>
    runInDurableObject(env.FLEET_DIRECTORY.getByName(crypto.randomUUID()), (_, state) =>
      run(new FleetDirectory(state, limited(limits))),
    );

  it('refuse one registration too many, not one that is there', async () => {
    const outcomes = await directoryWith('fleetRegistrations=1,fleetLeaseMs=100', async (one) => [
      await one.register(1, 'relay-0'),
      await one.register(2, 'relay-0'),
      await one.register(1, 'relay-0'),
    ]);
    const limit = { name: 'fleetRegistrations', max: 1 };
    expect(outcomes).toEqual([done, { ok: false, refusal: { kind: 'limit_reached', limit } }, done]);
  });

  it('hold a registration back until no older copy is in use', async () => {
    await directoryWith('fleetLeaseMs=400', async (one) => {
      await one.register(1, 'relay-0');
      expect(one.read('')).toMatchObject({ leaseMs: 400, registrations: [{ userId: 1 }] });
      const beforeMs = Date.now();
      await one.register(2, 'relay-0');
      expect(Date.now() - beforeMs).toBeGreaterThanOrEqual(390);
    });
  });

  it('let a copy be used for longer where too many are asked for, and answer a known one without its rows', async () => {
    await directoryWith('fleetReadsPerSecond=2,fleetLeaseMs=100', (one) => {
      const { version } = one.read('');
      const copies = Array.from({ length: 100 }, () => one.read(version));
      expect(copies.every((copy) => copy.registrations === undefined)).toBe(true);
      expect(Math.max(...copies.map(({ leaseMs }) => leaseMs))).toBe(500);
      return Promise.resolve();
    });
  });

  it('hold a registration back, after a restart as well, until no copy that was used for longer is left', async () => {
    const limits = limited('fleetReadsPerSecond=1,fleetLeaseMs=300');
    await runInDurableObject(env.FLEET_DIRECTORY.getByName(crypto.randomUUID()), async (_, state) => {
      const before = new FleetDirectory(state, limits);
      const leases = Array.from({ length: 10 }, () => before.read('').leaseMs);
      expect(Math.max(...leases)).toBe(1_500);
      const leasedAtMs = Date.now();
      await new FleetDirectory(state, limits).register(1, 'relay-0');
      expect(Date.now() - leasedAtMs).toBeGreaterThanOrEqual(1_490);
    });
  });

  it('never take a newer registration back', async () => {
    await directoryWith('fleetLeaseMs=100', async (one) => {
      await one.register(1, 'relay-0');
      const [old] = one.read('').registrations ?? [];
      await one.register(1, 'relay-0');
      one.unregister(1, 'relay-0', old!.registrationId);
      expect(one.read('').registrations).toHaveLength(1);
      one.unregister(1, 'relay-0', one.read('').registrations![0]!.registrationId);
      expect(one.read('').registrations).toEqual([]);
    });
  });

  it('refuse a snapshot of too many devices', async () => {
    const user = await createUser();
    const productKey = `snapshot-${crypto.randomUUID()}`;
    await call('POST', '/products', { token: user.token, body: { productKey, name: 'Switch' } });
    for (const deviceSN of ['A', 'B']) await call('POST', '/devices/activate', { body: { productKey, deviceSN } });
    const who = { kind: 'user', userId: user.userId, expiresAtMs: Infinity } as const;
    const target = { kind: 'fleet', who, productKey: undefined } as const;
    const limit = { name: 'relaySnapshotDevices', max: 1 };
    const refused = { ok: false, refusal: { kind: 'limit_reached', limit } };
    expect(await new RelaySnapshots(limited('relaySnapshotDevices=1')).devicesOf(target)).toEqual(refused);
    expect(await new RelaySnapshots(limited('')).devicesOf(target)).toMatchObject({ ok: true });
  });
});

const done = { ok: true, value: null };

it('forgets what was pushed for the least recent device beyond the limit', () => {
  const { relayRememberedDevices: max } = limitsSchema.parse('relayRememberedDevices=100');
  const pushed = new PushedMessages(max);
  const runOf = (deviceId: string) => ({
    ...{ deviceId, topic: 't', payloads: ['{}'], generations: [] },
    origin: { spoolId: 'one', seqs: [1], results: ['accepted' as const] },
  });
  for (let n = 0; n <= max; n++) expect(pushed.takeNew(runOf(`device ${n}`))).toEqual([0]);
  expect(pushed.takeNew(runOf('device 1')), 'a batch that is retried').toEqual([]);
  expect(pushed.takeNew(runOf('device 0'))).toEqual([0]);
});
