// How devices learn who follows all devices of a user, over lost objects, restarts and devices that cannot be told; and the
// limits of it.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import type { FleetRegistration } from '../../../src/domain/device/fleets.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { FleetDirectory } from '../../../src/objects/fleet-directory.ts';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { RelaySnapshots } from '../../../src/objects/relay/snapshots.ts';
import { fleetDirectoryNames, fleetDirectoryOf } from '../../../src/objects/calls/stubs.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { call, createUser } from '../rig/clients/client.ts';
import { provisionDevice, sessionOf } from '../rig/provision.ts';
import {
  authed,
  comeOnline,
  itemOf,
  openRelay,
  ping,
  pong,
  report,
  shard,
  shardName,
  subscribed,
  tokenOf,
} from '../rig/clients/relay.ts';
import {
  everything,
  otherAddress,
  directoryOf,
  newUserId,
  signIn,
  listen,
  failure,
  reportOf,
  pushOf,
  ownDevices,
  sql,
  registrations,
  toldDevices,
  subscribe,
  frameAfterStatus,
} from '../rig/fleet.ts';

const done = { ok: true, value: null };

describe('what a device knows of such subscriptions', () => {
  it('is asked for once in all lives of its object, and told from then on', async () => {
    const userId = newUserId();
    const [device] = await ownDevices(userId, 1);
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    for (const position of ['up', 'middle', 'down']) {
      await evictDurableObject(sessionOf(device!.deviceId));
      await report(reportOf(device!, position));
    }
    const socket = await listen(userId, everything);
    await evictDurableObject(sessionOf(device!.deviceId));
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
    expect(asks).not.toHaveBeenCalled();
    asks.mockRestore();
  });

  it('is asked for again after its time', async () => {
    const userId = newUserId();
    const [device] = await ownDevices(userId, 1);
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 24 * 3_600_000);
    await report(reportOf(device!, 'up'));
    await report(reportOf(device!, 'down'));
    now.mockRestore();
    expect(asks).toHaveBeenCalledTimes(1);
    asks.mockRestore();
  });

  it('comes with the first report, while a socket subscribes at the same moment', async () => {
    for (let round = 0; round < 8; round += 1) {
      const userId = newUserId();
      const device = await provisionDevice({ ownerId: userId });
      const socket = await signIn(userId);
      const announced = report(itemOf(topicOf(device, 'status'), '{"status":"online"}'));
      expect(await subscribe(socket, everything)).toEqual(subscribed(everything));
      await report(reportOf(device, 'up'));
      await announced;
      expect(await frameAfterStatus(socket, device)).toEqual(pushOf(device, 'up'));
    }
  });

  it('is right where the answer comes later than what the device was told meanwhile', async () => {
    const userId = newUserId();
    const device = await provisionDevice({ ownerId: userId });
    const { promise: listening, resolve } = Promise.withResolvers<undefined>();
    // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object below
    const { ask } = FleetDirectory.prototype;
    const { promise: asked, resolve: noteAsked } = Promise.withResolvers<undefined>();
    const late = vi.spyOn(FleetDirectory.prototype, 'ask').mockImplementationOnce(function (this: FleetDirectory, id) {
      const answer = ask.call(this, id);
      noteAsked(undefined);
      return listening.then(() => answer) as never;
    });
    const announced = report(itemOf(topicOf(device, 'status'), '{"status":"online"}'));
    await asked;
    const socket = await listen(userId, everything);
    resolve(undefined);
    await announced;
    late.mockRestore();
    await report(reportOf(device, 'up'));
    expect(await frameAfterStatus(socket, device)).toEqual(pushOf(device, 'up'));
  });

  it('ends with the membership, and comes back with it', async () => {
    const [ownerId, memberId] = [newUserId(), newUserId()];
    const device = await provisionDevice({ ownerId });
    const session = sessionOf(device.deviceId);
    const owner = { userId: ownerId, scopes: null, productKey: null };
    const party = { email: 'member@example.com', address: null };
    const join = () => session.join(memberId, 'viewer', ownerId, party);
    await join();
    await comeOnline(device);
    const socket = await listen(memberId, everything);
    await report(reportOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
    expect(await session.removeMember(owner, memberId, party)).toMatchObject({ ok: true });
    await report(reportOf(device, 'down'));
    expect(await socket.ask(ping)).toEqual(pong);
    // The directory hears of it with the next subscription.
    const other = await openRelay({ 'CF-Connecting-IP': otherAddress });
    expect(await other.ask({ action: 'auth', token: await tokenOf(memberId) })).toEqual(authed);
    expect(await other.ask({ action: 'subscribe', topic: everything })).toEqual(subscribed(everything));
    expect(await toldDevices(memberId)).toEqual([]);
    await join();
    await report(reportOf(device, 'middle'));
    expect(await socket.next()).toEqual(pushOf(device, 'middle'));
    expect(await other.next()).toEqual(pushOf(device, 'middle'));
  });

  it('is told a second time where the first failed', async () => {
    const userId = newUserId();
    const [device] = await ownDevices(userId, 1);
    const socket = await signIn(userId);
    const once = vi.spyOn(DeviceSession.prototype, 'registerFleet').mockImplementationOnce(failure);
    expect(await socket.ask({ action: 'subscribe', topic: everything })).toEqual(subscribed(everything));
    once.mockRestore();
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
  });

  it('is held up by no device that cannot be told, which is told as soon as it can be', async () => {
    const userId = newUserId();
    const [broken, device] = await ownDevices(userId, 2);
    type Register = (this: DeviceSession, registration: FleetRegistration) => boolean;
    const registerFleet: Register = Reflect.get(DeviceSession.prototype, 'registerFleet');
    const away = vi.spyOn(DeviceSession.prototype, 'registerFleet').mockImplementation(function (
      this: DeviceSession,
      registration,
    ) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      return ctx.id.name === broken!.deviceId ? failure() : registerFleet.call(this, registration);
    });
    const socket = await listen(userId, everything);
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
    // By this test, or by its own time.
    const tellAgain = async () => {
      await sql(userId, 'UPDATE untold SET next_at_ms = 0');
      await runDurableObjectAlarm(directoryOf(userId));
    };
    const untold = () => sql(userId, 'SELECT device_id, tries > 0 AS was_tried FROM untold');
    await tellAgain();
    expect(await untold()).toEqual([{ device_id: broken!.deviceId, was_tried: 1 }]);
    away.mockRestore();
    await tellAgain();
    await vi.waitFor(async () => expect(await untold()).toEqual([]));
    await report(reportOf(broken!, 'down'));
    expect(await socket.next()).toEqual(pushOf(broken!, 'down'));
    expect(await runDurableObjectAlarm(directoryOf(userId))).toBe(false);
  });

  it('is not made where more devices cannot be told than a few', async () => {
    const userId = newUserId();
    await ownDevices(userId, limitSpecs.fleetUntoldDevices.default + 1);
    const socket = await signIn(userId);
    const away = vi.spyOn(DeviceSession.prototype, 'registerFleet').mockImplementation(failure);
    const failed = { action: 'subscribe', code: 500, message: 'internal_error' };
    expect(await socket.ask({ action: 'subscribe', topic: everything })).toMatchObject(failed);
    away.mockRestore();
  });

  it('delays no message for long where the directory does not answer', async () => {
    const userId = newUserId();
    const device = await provisionDevice({ ownerId: userId });
    const never = () => new Promise(() => undefined) as never;
    const away = vi.spyOn(FleetDirectory.prototype, 'ask').mockImplementation(never);
    await comeOnline(device);
    await report(reportOf(device, 'up'));
    expect(away).toHaveBeenCalledTimes(1);
    away.mockRestore();
  });

  it('is found again where the directory was lost: its shards by the shard, the device by a reconciliation', async () => {
    const userId = newUserId();
    const [device] = await ownDevices(userId, 1);
    const socket = await listen(userId, everything);
    await sql(userId, 'DELETE FROM listener');
    await sql(userId, 'DELETE FROM told');
    await evictDurableObject(directoryOf(userId));
    await runInDurableObject(shard(), async (gateway) => {
      const minute = Math.floor(Date.now() / 60_000);
      const inItsMinute = (minute - (minute % 60) + 60 + (userId % 60)) * 60_000;
      const now = vi.spyOn(Date, 'now').mockReturnValue(inItsMinute);
      await gateway.alarm();
      now.mockRestore();
    });
    expect(await registrations(userId)).toMatchObject([{ shard: shardName }]);
    expect(await toldDevices(userId)).toEqual([]);
    await sessionOf(device!.deviceId).compareRecord(0, 0);
    await report(reportOf(device!, 'up'));
    expect(await socket.next()).toEqual(pushOf(device!, 'up'));
    expect(await toldDevices(userId)).toEqual([device!.deviceId]);
  });
});

it('is registered by the next alarm of a shard whose sockets an older version has left', async () => {
  const userId = newUserId();
  const socket = await listen(userId, everything);
  await sql(userId, 'DELETE FROM listener');
  await runInDurableObject(shard(), async (gateway, { storage }) => {
    storage.kv.delete('fleetsConfirmed');
    await gateway.alarm();
  });
  expect(await registrations(userId)).toMatchObject([{ shard: shardName }]);
  const [device] = await ownDevices(userId, 1);
  await report(reportOf(device!, 'up'));
  expect(await frameAfterStatus(socket, device!)).toEqual(pushOf(device!, 'up'));
});

describe('limits', () => {
  const limited = (limits: string) => ({ ...env, LIMITS: limits }) as unknown as Env;
  const directoryWith = <T>(
    limits: string,
    run: (directory: FleetDirectory, again: () => FleetDirectory) => T | Promise<T>,
  ) =>
    runInDurableObject(env.FLEET_DIRECTORY.getByName(crypto.randomUUID()), (_, state) =>
      run(new FleetDirectory(state, limited(limits)), () => new FleetDirectory(state, limited(limits))),
    );
  const listenAt = (one: FleetDirectory) => one.listen(1, 'relay-0', false);

  it('let a directory tell so many devices, and lease to the others', async () => {
    await directoryWith('fleetToldDevices=1,fleetToldHours=2,fleetLeaseMs=300', (one) => {
      const told = one.ask('dev_first');
      expect(told).toMatchObject({ listeners: [], isTold: true });
      expect(told.forMs).toBeGreaterThanOrEqual(1.5 * 3_600_000);
      expect(told.forMs).toBeLessThanOrEqual(2 * 3_600_000);
      expect(one.ask('dev_second')).toEqual({ listeners: [], isTold: false, forMs: 300 });
      expect(one.ask('dev_first')).toMatchObject({ isTold: true });
      const later = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 4 * 3_600_000);
      expect(one.ask('dev_second')).toMatchObject({ isTold: true });
      later.mockRestore();
    });
  });

  it('hold a registration back until no lease is in use, after a restart as well, and not where there is none', async () => {
    await directoryWith('fleetToldDevices=1,fleetLeaseMs=400', async (one, again) => {
      const wait = vi.spyOn(scheduler, 'wait');
      // Other objects of the isolate yield meanwhile, with a wait of no length.
      const waits = () => wait.mock.calls.filter(([ms]) => ms > 0);
      expect(await listenAt(one)).toEqual(done);
      expect(await listenAt(again())).toEqual(done);
      expect(waits()).toEqual([]);
      one.ask('dev_first');
      const leasedAtMs = Date.now();
      expect(one.ask('dev_second')).toMatchObject({ forMs: 400, listeners: [{ shard: 'relay-0' }] });
      expect(await listenAt(again())).toEqual(done);
      expect(waits()).toHaveLength(1);
      expect(Date.now() - leasedAtMs).toBeGreaterThanOrEqual(390);
      wait.mockRestore();
    });
  });

  it('never take a newer registration back', async () => {
    await directoryWith('', async (one) => {
      await listenAt(one);
      const [old] = one.ask('dev_one').listeners;
      await listenAt(one);
      one.leave('relay-0', old!.registrationId);
      const [newer] = one.ask('dev_one').listeners;
      expect(newer?.registrationId).toBeGreaterThan(old!.registrationId);
      one.leave('relay-0', newer!.registrationId);
      expect(one.ask('dev_one').listeners).toEqual([]);
    });
  });

  it('divide the devices of a user among as many directories as there are', () => {
    const names = fleetDirectoryNames(7, 3);
    const used = Array.from({ length: 50 }, (_, index) => fleetDirectoryOf(7, `dev_${index}`, 3));
    expect(new Set(used)).toEqual(new Set(names));
    expect(fleetDirectoryNames(7, 1)).toEqual([fleetDirectoryOf(7, 'dev_one', 1)]);
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
