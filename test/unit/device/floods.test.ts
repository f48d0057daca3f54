// A device that says too much: what is taken of it, what its owner sees, and that what is known of it in the end is true.
import { describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { roomAtMs, spend, unspent, type Spent } from '../../../src/domain/token-bucket.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { type CoreDevice, onlineDevice } from './core-device.ts';
import { announcementsPerMinute, transitionsPerMinute } from '../../../src/domain/device/presence/announcements.ts';

const { propertyPost, propertySetReply, status } = topicActions;
const startMs = 1_790_000_000_000;
const minuteMs = 60_000;
const maxMessages = limitSpecs.deviceMessagesPerMinute.default;
const tooMany = { result: 'rejected', reason: 'too_many_messages' };

const online = () => onlineDevice(startMs);

/** Uses up what the device may say in a minute. */
function exhaust(device: CoreDevice): void {
  for (let sent = 0; sent < maxMessages; sent++) {
    expect(device.receive(propertyPost, { params: { angle: sent } }).result).toBe('accepted');
  }
}

function exhausted(): CoreDevice {
  const device = online();
  exhaust(device);
  return device;
}

const floodsOf = (device: CoreDevice) => device.events().filter((event) => event.status === 'flooded');

const pushesOf = (device: CoreDevice) =>
  device.effects.flatMap((effect) => (effect.kind === 'push' ? [JSON.parse(effect.payload) as unknown] : []));

/** A second later, when the alarm fires that was set for it. */
function waitForAlarm(device: CoreDevice): void {
  device.nowMs = device.state.alarm.setAtMs ?? device.nowMs;
  device.fireAlarm();
}

describe('messages beyond the limit', () => {
  it('are dropped, and their number is an event for the owner', () => {
    const device = exhausted();
    for (let sent = 0; sent < 100; sent++) {
      expect(device.receive(propertyPost, { params: { angle: 1 } })).toMatchObject(tooMany);
    }
    expect(floodsOf(device)).toMatchObject([{ reason: 'too_many_messages', count: 100 }]);
  });

  it('leave the last value of each property true, in one message after a second', () => {
    const device = exhausted();
    device.receive(propertyPost, { params: { position: 'down', angle: 7 } });
    device.receive(propertyPost, { params: { position: 'middle' } });
    device.receive(propertyPost, { params: { position: 'up' } });
    expect(device.status().position).toBeNull();
    device.effects.length = 0;
    waitForAlarm(device);
    expect(device.nowMs).toBe(startMs + 1_000);
    expect(device.status().position).toBe('up');
    expect(pushesOf(device)).toEqual([
      {
        method: 'thing.event.property.post',
        id: String(startMs),
        params: { position: 'up', angle: 7 },
        time: startMs,
      },
    ]);
    device.sleep();
    expect(device.status().position).toBe('up');
  });

  it('do not overtake a later message that is taken', () => {
    const device = exhausted();
    device.receive(propertyPost, { params: { position: 'down', angle: 90 } });
    device.nowMs += 500;
    expect(device.receive(propertyPost, { params: { position: 'up' } }).result).toBe('accepted');
    waitForAlarm(device);
    expect(device.status().position).toBe('up');
    expect(device.state.properties.values.find(([name]) => name === 'angle')?.[1]).toBe(90);
  });

  it('leave the last status true', () => {
    const device = exhausted();
    for (let sent = 0; sent < 50; sent++) {
      device.receive(status, { status: 'online' });
      device.receive(status, { status: 'offline' });
    }
    expect(device.status().online).toBe(true);
    waitForAlarm(device);
    expect(device.status().online).toBe(false);
  });

  it('change nothing once the session has ended', () => {
    const device = exhausted();
    device.receive(propertyPost, { params: { position: 'down' } });
    device.run({ kind: 'credentials_replaced', actor: inPerson(1), passwordDigest: 'next', address: null });
    waitForAlarm(device);
    expect(device.status().position).toBeNull();
  });

  it('still answer a command, once', () => {
    const device = online();
    const { commandId } = device.request({ params: { action: 'trigger' }, ttlSeconds: undefined });
    exhaust(device);
    expect(device.receive(propertySetReply, { id: commandId, code: 0 })).toEqual({ result: 'accepted' });
    expect(device.commands()[0]).toMatchObject({ state: 'acknowledged' });
    expect(device.receive(propertySetReply, { id: commandId, code: 0 })).toMatchObject(tooMany);
  });

  it('are counted also where the device is disabled', () => {
    const device = online();
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled: true } });
    const results = Array.from({ length: maxMessages + 5 }, () => device.receive(propertyPost, { params: {} }));
    expect(results.filter((result) => 'reason' in result && result.reason === 'device_disabled')).toHaveLength(
      maxMessages,
    );
    expect(floodsOf(device)).toMatchObject([{ count: 5 }]);
  });

  it('keep no more properties waiting than a device may have', () => {
    const device = exhausted();
    for (let sent = 0; sent < 200; sent++) device.receive(propertyPost, { params: { [`p${sent}`]: sent } });
    expect(device.state.coalesced.properties).toHaveLength(64);
  });

  it('of a relay session are refused, and counted with the others', () => {
    const device = exhausted();
    const { productKey } = device;
    const said = { productKey, generation: 1, action: propertyPost, payload: '{"params":{"position":"up"}}' };
    expect(device.run({ kind: 'relay_message_received', ...said })).toMatchObject({
      ok: false,
      refusal: { kind: 'rate_limited', limit: 'deviceMessagesPerMinute' },
    });
    expect(floodsOf(device)).toMatchObject([{ count: 1 }]);
  });

  it('are one again when the bridge sends them again, not two', () => {
    const device = exhausted();
    device.receive(propertyPost, { params: { position: 'up' } }, { seq: maxMessages + 1 });
    expect(device.receive(propertyPost, { params: { position: 'up' } }, { seq: maxMessages + 1 })).toMatchObject({
      result: 'duplicate',
    });
    expect(floodsOf(device)).toMatchObject([{ count: 1 }]);
  });
});

describe('a backlog', () => {
  const arrivals = Array.from({ length: 3 * maxMessages }, (_, second) => startMs - 86_400_000 + second * 1000);

  it('counts by when its messages arrived at the bridge', () => {
    const device = online();
    for (const receivedAtMs of arrivals) {
      expect(device.receive(propertyPost, { params: { position: 'up' } }, { receivedAtMs }).result).toBe('accepted');
    }
  });

  it('of another bridge is no flood', () => {
    const device = exhausted();
    device.nowMs += minuteMs;
    exhaust(device);
    device.nowMs += minuteMs;
    const results = arrivals.map((receivedAtMs) => {
      const older = { seq: receivedAtMs, receivedAtMs };
      return device.receive(propertyPost, { params: { position: 'up' } }, older).result;
    });
    expect(results.filter((result) => result !== 'accepted')).toEqual([]);
  });
});

describe('a device that comes and goes without end', () => {
  const rounds = 500;

  function flap(device: CoreDevice): void {
    for (let round = 1; round <= rounds; round++) {
      device.nowMs += 10;
      device.connect();
      device.nowMs += 10;
      device.disconnect();
    }
  }

  it('has few events, which stand for all of its transitions, the newest of them true', () => {
    const device = online();
    flap(device);
    device.sleep();
    const events = device.events();
    const transitions = events.reduce((sum, event) => sum + ('count' in event ? (event.count ?? 1) : 1), 0);
    expect(transitions).toBe(2 * rounds);
    expect(events[0]).toMatchObject({ status: 'offline', reason: 'disconnected' });
    expect(events.length).toBeLessThan(transitionsPerMinute + 10);
    waitForAlarm(device);
    expect(device.events()).toEqual(events);
  });

  it('is announced up to the limit, and in the end as what it is', () => {
    const device = online();
    flap(device);
    const announced = () => device.published.filter(({ topic }) => topic.endsWith(`/${status}`));
    expect(announced().length).toBeLessThanOrEqual(announcementsPerMinute + 10);
    for (let times = 0; times < 5; times++) waitForAlarm(device);
    expect(JSON.parse(announced().at(-1)?.payload ?? '')).toMatchObject({ status: 'offline' });
  });
});

describe('a bucket', () => {
  it('holds a minute and drains evenly', () => {
    let spent: Spent = unspent;
    for (let times = 0; times < 7; times++) spent = spend(spent, 7, startMs) ?? spent;
    expect(spend(spent, 7, startMs)).toBeUndefined();
    const roomMs = roomAtMs(spent, 7, startMs);
    expect(roomMs).toBe(startMs + Math.ceil(minuteMs / 7));
    expect(spend(spent, 7, roomMs - 2)).toBeUndefined();
    expect(spend(spent, 7, roomMs)).toBeDefined();
  });

  it('is not filled up by small steps back in time', () => {
    let spent: Spent = unspent;
    let taken = 0;
    for (let times = 0; times < 1_000; times++) {
      const next = spend(spent, 60, startMs + (times % 2) * 100);
      if (next !== undefined) taken += 1;
      spent = next ?? spent;
    }
    expect(taken).toBeLessThanOrEqual(61);
  });
});
