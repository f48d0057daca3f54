// What a device's core remembers of subscriptions to all devices of its readers: what counts for how long, what is worth a
// row, what ends it, and what an older version has left.
import { describe, expect, it } from 'vitest';
import { fleetsOf, unknownFleets, type FleetAnswer } from '../../../src/domain/device/fleets.ts';
import { readLimits } from '../../../src/limits.ts';
import { CoreDevice } from './core-device.ts';

const ownerId = 1;
const memberId = 2;
const hourMs = 3_600_000;
const startMs = Date.UTC(2026, 0, 1);
const nobody: FleetAnswer = { listeners: [], forMs: hourMs, isTold: true };
const party = { email: 'm@example.com', address: null };
const owner = { userId: ownerId, scopes: null, productKey: null };

const unknownTo = (device: CoreDevice, readers = [ownerId]) => unknownFleets(device.state, readers, device.nowMs);
const answer = (device: CoreDevice, told: FleetAnswer, userId = ownerId) =>
  device.run({ kind: 'fleet_answered', userId, askedAtMs: device.nowMs, answer: told });
const register = (device: CoreDevice, registrationId: number, userId = ownerId, shard = 'relay-0') =>
  device.run({ kind: 'fleet_registered', userId, shard, registrationId });
const end = (device: CoreDevice, registrationId: number) =>
  device.run({ kind: 'fleet_ended', userId: ownerId, shard: 'relay-0', registrationId });
const shardsOf = (device: CoreDevice, userId = ownerId) =>
  fleetsOf(device.state, [userId]).map(({ shard, registrationId }) => `${shard} ${registrationId}`);

describe('what a directory told', () => {
  it('counts for its time, in the next life of the object as well, and not before it was asked', () => {
    const device = new CoreDevice(startMs);
    expect(unknownTo(device)).toEqual([ownerId]);
    answer(device, nobody);
    device.sleep();
    expect(unknownTo(device)).toEqual([]);
    device.nowMs = startMs - 1;
    expect(unknownTo(device)).toEqual([ownerId]);
    device.nowMs = startMs + hourMs;
    expect(unknownTo(device)).toEqual([ownerId]);
  });

  it('takes a row where it changes, and none where it is leased or said again', () => {
    const device = new CoreDevice(startMs);
    answer(device, { ...nobody, isTold: false });
    expect(device.savedRows()).not.toHaveProperty('fleets');
    answer(device, nobody);
    register(device, 5);
    const row = device.savedRows()['fleets'];
    expect(row).toContain('relay-0');
    register(device, 4);
    end(device, 4);
    device.receive('status', { status: 'online' });
    expect(device.savedRows()['fleets']).toBe(row);
    end(device, 5);
    device.sleep();
    expect(shardsOf(device)).toEqual([]);
    expect(unknownTo(device)).toEqual([]);
  });

  it('keeps what came before the answer, and the newest registration of each shard', () => {
    const device = new CoreDevice(startMs);
    expect(register(device, 5)).toBe(true);
    expect(unknownTo(device)).toEqual([ownerId]);
    const older = [
      { shard: 'relay-0', registrationId: 3 },
      { shard: 'relay-1', registrationId: 1 },
    ];
    answer(device, { ...nobody, listeners: older });
    expect(shardsOf(device)).toEqual(['relay-0 5', 'relay-1 1']);
    end(device, 3);
    expect(shardsOf(device)).toEqual(['relay-0 5', 'relay-1 1']);
  });

  it('is asked for again where the user has another number of directories', () => {
    const device = new CoreDevice(startMs);
    answer(device, nobody);
    const limits = readLimits('fleetDirectories=2');
    const { settings } = device.state;
    const state = { ...device.state, settings: { ...settings, limits } };
    expect(unknownFleets(state, [ownerId], startMs)).toEqual([ownerId]);
  });
});

describe('a user who may not follow the device', () => {
  it('is not registered', () => {
    const device = new CoreDevice(startMs);
    expect(register(device, 1, memberId)).toBe(false);
    expect(device.state.fleets).toEqual([]);
    expect(unknownTo(device, [memberId])).toEqual([]);
  });

  it('is forgotten as soon as a membership ends', () => {
    const device = new CoreDevice(startMs);
    device.run({ kind: 'member_joined', userId: memberId, role: 'viewer', invitedBy: ownerId, ...party });
    answer(device, nobody, memberId);
    register(device, 1, memberId);
    expect(shardsOf(device, memberId)).toEqual(['relay-0 1']);
    device.run({ kind: 'member_removed', actor: owner, userId: memberId, ...party });
    expect(device.state.fleets).toEqual([]);
    device.run({ kind: 'member_joined', userId: memberId, role: 'viewer', invitedBy: ownerId, ...party });
    expect(unknownTo(device, [memberId])).toEqual([memberId]);
  });

  it('is forgotten with a new owner', () => {
    const device = new CoreDevice(startMs);
    answer(device, nobody);
    device.run({ kind: 'released', actor: owner, defaultName: 'A switch' });
    expect(device.state.fleets).toEqual([]);
  });
});

it('forgets all where a reconciliation compares the record', () => {
  const device = new CoreDevice(startMs);
  answer(device, nobody);
  device.run({ kind: 'record_compared', projectionVersion: 0, membersVersion: 0 });
  device.sleep();
  expect(unknownTo(device)).toEqual([ownerId]);
});
