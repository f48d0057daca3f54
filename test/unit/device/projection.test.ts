// When a device writes its copy in D1: seldom, one write at a time, and until D1 has what is true.
import { expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { CoreDevice } from './core-device.ts';
import { projectionsPerMinute } from '../../../src/domain/device/presence/projection.ts';

const startMs = 1_790_000_000_000;
const intervalMs = 60_000 / projectionsPerMinute;

const lastOf = (device: CoreDevice) => device.writes().at(-1)!.projection;

it('of a quiet device is written at once', () => {
  const device = new CoreDevice(startMs);
  device.connect();
  expect(device.writes()).toHaveLength(1);
  expect(device.state.presence.isProjectionBehind).toBe(false);
});

it('of a device that comes and goes every 2 ms is written once an interval, and is true in the end', () => {
  const device = new CoreDevice(startMs);
  const seconds = 10;
  for (let ms = 0; ms < seconds * 1000; ms += 4) {
    device.waitUntil(startMs + ms + 2);
    device.connect();
    device.waitUntil(startMs + ms + 4);
    device.disconnect();
  }
  expect(device.writes().length).toBeLessThanOrEqual((seconds * 1000) / intervalMs + 1);
  device.wait(intervalMs);
  expect(lastOf(device)).toMatchObject({ connectionStatus: 2 });
  expect(device.state.presence.isProjectionBehind).toBe(false);
});

it('is there when users are told of a change', () => {
  const device = new CoreDevice(startMs);
  device.projectionOutcome = undefined;
  device.run({ kind: 'administered', actor: inPerson(1), change: { name: 'Hall' } });
  const told = () =>
    device.effects.flatMap((effect) => (effect.kind === 'tell_readers' ? [[effect.payload, effect.readers]] : []));
  device.endProjection(lastOf(device).version, 'failed');
  expect(told()).toEqual([]);
  device.endProjection(lastOf(device).version, 'written');
  expect(told()).toEqual([[JSON.stringify({ change: 'record_changed', time: startMs }), [1]]]);
});

it('has one write under way at a time, and the next one holds what happened meanwhile', () => {
  const device = new CoreDevice(startMs);
  device.projectionOutcome = undefined;
  device.connect();
  device.waitUntil(startMs + 10_000);
  device.disconnect();
  device.waitUntil(startMs + 20_000);
  expect(device.writes()).toHaveLength(1);
  device.endProjection(lastOf(device).version, 'written');
  expect(device.writes()).toHaveLength(2);
  expect(lastOf(device)).toMatchObject({ connectionStatus: 2 });
});

it('that D1 does not take is tried again later and later, and by each device at another time', () => {
  const waitsOf = (deviceId: string) => {
    const device = new CoreDevice(startMs, {}, deviceId);
    device.projectionOutcome = 'failed';
    device.connect();
    const waits: number[] = [];
    for (let failures = 0; failures < 12; failures++) {
      const [count, beforeMs] = [device.writes().length, device.nowMs];
      while (device.writes().length === count) device.waitUntil(device.state.alarm.setAtMs!);
      waits.push(device.nowMs - beforeMs);
    }
    device.projectionOutcome = 'written';
    device.wait(600_000);
    expect(device.state.presence.isProjectionBehind).toBe(false);
    return waits;
  };
  const [ones, others] = [waitsOf('dev_00000001'), waitsOf('dev_00000002')];
  for (const [index, waitMs] of ones.entries()) {
    const meanMs = Math.min(2_000 * 2 ** index, 300_000);
    expect(waitMs).toBeGreaterThanOrEqual(meanMs / 2);
    expect(waitMs).toBeLessThanOrEqual(meanMs * 1.5 + 1);
    expect(waitMs).not.toBe(others[index]);
  }
});

it('waits for its turn where others are before it', () => {
  const device = new CoreDevice(startMs);
  device.projectionOutcome = { retryAfterMs: 70_000 };
  device.connect();
  device.projectionOutcome = 'written';
  device.waitUntil(startMs + 69_999);
  expect(device.writes()).toHaveLength(1);
  device.waitUntil(startMs + 70_000);
  expect(device.writes()).toHaveLength(2);
});

it('is written again when nothing was heard of the write, also after sleep', () => {
  const device = new CoreDevice(startMs);
  device.projectionOutcome = undefined;
  device.connect();
  device.sleep();
  device.projectionOutcome = 'written';
  device.waitUntil(startMs + 60_000);
  expect(device.writes()).toHaveLength(2);
});

it('that the owner waits for does not wait for another, which changes nothing when it ends later', () => {
  const device = new CoreDevice(startMs);
  device.projectionOutcome = undefined;
  device.connect();
  device.run({ kind: 'administered', actor: inPerson(1), change: { name: 'Another' } });
  const [older, urgent] = device.writes();
  expect(urgent).toMatchObject({ isUrgent: true, projection: { name: 'Another' } });
  device.endProjection(urgent!.projection.version, 'written');
  device.endProjection(older!.projection.version, 'written');
  device.waitUntil(startMs + 120_000);
  expect(device.writes()).toHaveLength(2);
});
