// How devices learn who follows all devices of a user: leases, their end, lost objects, and devices that do not answer.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { FleetDirectory } from '../../../src/objects/fleet-directory.ts';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { RelaySnapshots } from '../../../src/objects/relay/snapshots.ts';
import { call, createUser, makeProduct } from '../rig/clients/client.ts';
import { provisionDevice, sessionOf } from '../rig/provision.ts';
import { comeOnline, itemOf, report, shard, shardName, subscribed } from '../rig/clients/relay.ts';
import {
  everything,
  directoryOf,
  newUserId,
  listen,
  failure,
  reportOf,
  pushOf,
  userWithDevice,
  sql,
  registrations,
  leases,
  afterLease,
  subscribe,
  frameAfterStatus,
} from '../rig/fleet.ts';

/** The alarm of the shard in the minute that is the user's. */
function confirmFleets(userId: number): Promise<void> {
  return runInDurableObject(shard(), async (gateway) => {
    const minute = Math.floor(Date.now() / 60_000);
    const inItsMinute = (minute - (minute % 60) + 60 + (userId % 60)) * 60_000;
    const now = vi.spyOn(Date, 'now').mockReturnValue(inItsMinute);
    await gateway.alarm();
    now.mockRestore();
  });
}

const retryable = (): never => {
  throw Object.assign(new Error('away'), { retryable: true });
};

describe('what a device knows of such subscriptions', () => {
  it('is asked for once per lease of `fleetLeaseSeconds`, and writes one row in all leases', async () => {
    const userId = newUserId();
    const device = await provisionDevice({ ownerId: userId });
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    await comeOnline(device);
    for (const position of ['up', 'middle', 'down']) await report(reportOf(device, position));
    expect(asks).toHaveBeenCalledTimes(1);
    await afterLease(() => report(reportOf(device, 'up')));
    expect(asks).toHaveBeenCalledTimes(2);
    expect(await leases(userId)).toEqual([device.deviceId]);
  });

  it('is not asked for after a subscription until something is to be pushed', async () => {
    const { userId, device } = await userWithDevice();
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    await evictDurableObject(directoryOf(userId));
    const socket = await listen(userId, everything);
    expect(await leases(userId)).toEqual([]);
    expect(asks).not.toHaveBeenCalled();
    await report(reportOf(device, 'up'), reportOf(device, 'down'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'down'));
    expect(asks).toHaveBeenCalledTimes(1);
  });

  it('comes with the first report, while a socket subscribes at the same moment', async () => {
    for (let round = 0; round < 8; round += 1) {
      const userId = newUserId();
      const device = await provisionDevice({ ownerId: userId });
      const socket = await listen(userId);
      const announced = report(itemOf(topicOf(device, 'status'), '{"status":"online"}'));
      expect(await subscribe(socket, everything)).toEqual(subscribed(everything));
      await report(reportOf(device, 'up'));
      await announced;
      expect(await frameAfterStatus(socket, device)).toEqual(pushOf(device, 'up'));
    }
  });

  it('is right where the answer comes later than the end of its lease', async () => {
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

  it('comes at the second try where the first failed to end a lease', async () => {
    const { userId, device } = await userWithDevice();
    const socket = await listen(userId);
    const once = vi.spyOn(DeviceSession.prototype, 'endFleetLease').mockImplementationOnce(retryable);
    expect(await socket.ask({ action: 'subscribe', topic: everything })).toEqual(subscribed(everything));
    once.mockRestore();
    await report(reportOf(device, 'up'));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
  });

  it('is held up by no device that does not answer, which the alarm of the shard tells later', async () => {
    const { userId, device } = await userWithDevice();
    const away = vi.spyOn(DeviceSession.prototype, 'endFleetLease').mockImplementation(failure);
    const socket = await listen(userId, everything);
    away.mockRestore();
    await report(reportOf(device, 'up'));
    await confirmFleets(userId);
    await report(reportOf(device, 'down'));
    expect(await socket.next()).toEqual(pushOf(device, 'down'));
  });

  it('outlives a sleep of the device: it is not asked for again', async () => {
    const { userId, device } = await userWithDevice();
    await evictDurableObject(sessionOf(device.deviceId));
    const asks = vi.spyOn(FleetDirectory.prototype, 'ask');
    await report(reportOf(device, 'up'));
    expect(asks).not.toHaveBeenCalled();
    asks.mockRestore();
    const socket = await listen(userId, everything);
    await report(reportOf(device, 'down'));
    expect(await socket.next()).toEqual(pushOf(device, 'down'));
  });

  it('delays no message for long where the directory does not answer', async () => {
    const userId = newUserId();
    const device = await provisionDevice({ ownerId: userId });
    const never = () => new Promise(() => undefined) as never;
    const away = vi.spyOn(FleetDirectory.prototype, 'ask').mockImplementation(never);
    await comeOnline(device);
    await report(reportOf(device, 'up'));
    expect(away).toHaveBeenCalledTimes(1);
  });

  it('is found again where the directory was lost: by the alarm of the shard, and with the next lease', async () => {
    const { userId, device } = await userWithDevice();
    const socket = await listen(userId, everything);
    await sql(userId, 'DELETE FROM listener');
    await sql(userId, 'DELETE FROM lease');
    await confirmFleets(userId);
    expect(await registrations(userId)).toMatchObject([{ shard: shardName }]);
    await afterLease(() => report(reportOf(device, 'up')));
    expect(await socket.next()).toEqual(pushOf(device, 'up'));
  });
});

describe('a directory', () => {
  const directory = () => env.FLEET_DIRECTORY.getByName(`user-${newUserId()}`);

  it('never takes a newer registration back', async () => {
    await runInDurableObject(directory(), async (fleet) => {
      await fleet.listen(1, 'relay-0');
      const [old] = fleet.ask('dev_one').listeners;
      await fleet.listen(1, 'relay-0');
      fleet.leave('relay-0', old!.registrationId);
      const [newer] = fleet.ask('dev_one').listeners;
      expect(newer?.registrationId).toBeGreaterThan(old!.registrationId);
      fleet.leave('relay-0', newer!.registrationId);
      expect(fleet.ask('dev_one').listeners).toEqual([]);
    });
  });

  it('ends a hundred leases with one call, and the others with the next one', async () => {
    const endings = vi.spyOn(DeviceSession.prototype, 'endFleetLease');
    await runInDurableObject(directory(), async (fleet) => {
      for (let number = 0; number < 101; number += 1) fleet.ask(`dev_leased_${number}`);
      expect(await fleet.listen(1, 'relay-0')).toBe(false);
      expect(endings).toHaveBeenCalledTimes(100);
      expect(await fleet.listen(1, 'relay-0')).toBe(true);
      expect(endings).toHaveBeenCalledTimes(101);
    });
  });

  it('answers a second shard no sooner than the leases have ended that the first took', async () => {
    const { promise: ended, resolve } = Promise.withResolvers<never>();
    vi.spyOn(DeviceSession.prototype, 'endFleetLease').mockReturnValue(ended as never);
    await runInDurableObject(directory(), async (fleet) => {
      fleet.ask('dev_slow');
      const order: string[] = [];
      const first = fleet.listen(1, 'relay-0').then(() => order.push('first'));
      const second = fleet.listen(1, 'relay-1').then(() => order.push('second'));
      await scheduler.wait(20);
      expect(order).toEqual([]);
      resolve(undefined as never);
      await Promise.all([first, second]);
      expect(order).toEqual(['first', 'second']);
    });
  });
});

it('a snapshot of too many devices is refused', async () => {
  const user = await createUser();
  const productKey = await makeProduct(user);
  await call('POST', '/devices/activate', { body: { productKey, deviceSN: 'A' } });
  const who = { kind: 'user', ...inPerson(user.userId), expiresAtMs: Infinity } as const;
  const target = { kind: 'fleet', who, productKey: undefined } as const;
  const snapshots = new RelaySnapshots(env);
  const count = (devices: number) =>
    env.DB.prepare('update device_counts set devices = ? where owner_id = ?').bind(devices, user.userId).run();
  await count(1_000);
  expect(await snapshots.devicesOf(target)).toMatchObject({ ok: true });
  await count(1_001);
  const limit = { name: 'relaySnapshotDevices', max: 1_000 };
  expect(await snapshots.devicesOf(target)).toEqual({ ok: false, refusal: { kind: 'limit_reached', limit } });
});

it('a user has no second snapshot under way: it waits for the first, others do not, and a failure blocks none', async () => {
  const snapshots = new RelaySnapshots(env);
  const order: string[] = [];
  const { promise, reject } = Promise.withResolvers<undefined>();
  const run = (userId: number, name: string, until?: Promise<unknown>) =>
    snapshots.inTurn({ kind: 'user', ...inPerson(userId), expiresAtMs: null }, async () => {
      order.push(name);
      await until;
    });
  const first = run(1, 'first', promise);
  const second = run(1, 'second');
  await run(2, 'of another');
  expect(order).toEqual(['first', 'of another']);
  reject(new Error('D1 does not answer'));
  await expect(first).rejects.toThrow('D1');
  await second;
  expect(order).toEqual(['first', 'of another', 'second']);
});
