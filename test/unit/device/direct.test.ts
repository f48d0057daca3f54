// The device core's part of a direct session: what begins, ends and is noticed, with the service's clock as a value. And
// how many packets a connection may send.
import { describe, expect, it } from 'vitest';
import type { DirectSessionEnd } from '../../../src/domain/device/presence/sessions.ts';
import { limitsOf } from '../limits-of.ts';
import { DirectConnection } from '../../../src/objects/mqtt/connection.ts';
import { CoreDevice } from './core-device.ts';
import { directLimits } from '../../../src/domain/direct/direct-limits.ts';

const startMs = Date.UTC(2026, 0, 1);

function connect(device: CoreDevice, takenOver: { will: string | null } | null = null): number {
  const login = { productKey: device.productKey, isClientIdRight: true, matchedDigest: 'password', address: null };
  const outcome = device.run({ kind: 'direct_connected', ...login, takenOver });
  if (!outcome.ok) throw new Error(outcome.refusal.kind);
  return outcome.value.startedAtMs;
}

const end = (device: CoreDevice, startedAtMs: number, reason: DirectSessionEnd['reason']) =>
  device.run({ kind: 'direct_ended', end: { startedAtMs, reason, will: null, endedAtMs: device.nowMs } });

function isOnlineWithoutSocket(device: CoreDevice, afterMs: number): boolean {
  device.nowMs += afterMs;
  device.run({ kind: 'direct_checked', open: null });
  return device.status().online;
}

const details = (device: CoreDevice) => device.events().map(({ status, detail }) => `${status} ${detail}`.trim());

/** An open connection, without a socket. */
const open = () =>
  new DirectConnection({ serializeAttachment: () => undefined } as unknown as WebSocket, {
    phase: 'connecting',
    address: '',
    session: null,
  });

describe('a direct session', () => {
  it('is told apart from every earlier one, also where the clock of a broker is ahead', () => {
    const device = new CoreDevice(startMs);
    device.run({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs: startMs + 60_000 } });
    const first = connect(device);
    const second = connect(device, { will: null });
    expect(first).toBeGreaterThan(startMs + 60_000);
    expect(second).toBeGreaterThan(first);
    end(device, first, 'lost');
    expect(device.status().online).toBe(true);
    end(device, second, 'lost');
    expect(device.status().online).toBe(false);
  });

  it('writes nothing for a message that says nothing new, awake or after a sleep', () => {
    const device = new CoreDevice(startMs);
    const startedAtMs = connect(device);
    const say = () =>
      device.run({
        kind: 'direct_packets_received',
        startedAtMs,
        messages: [{ action: 'thing/event/property/post', payload: '{"params":{"angle":1}}' }],
        delivered: [],
        hasSubscribed: false,
        end: null,
      });
    say();
    const saved = device.savedRows();
    for (let minute = 0; minute < 10; minute++) {
      device.nowMs += 60_000;
      expect(say().results).toEqual([{ result: 'accepted' }]);
    }
    expect(device.savedRows()).toEqual(saved);
    expect(device.status()).toMatchObject({ online: true, lastOnlineAt: new Date(device.nowMs).toISOString() });
  });

  it('rejects what a session says that is over', () => {
    const device = new CoreDevice(startMs);
    const startedAtMs = connect(device);
    connect(device, { will: null });
    const packets = { startedAtMs, delivered: [], hasSubscribed: true, end: null };
    const messages = [{ action: 'thing/event/property/post', payload: '{"params":{"angle":1}}' } as const];
    const { results } = device.run({ kind: 'direct_packets_received', messages, ...packets });
    expect(results).toEqual([{ result: 'rejected', reason: 'session_revoked' }]);
  });

  it.each([
    ['30 seconds', '', 300_000, 30_000],
    ['so long as the limits say', 'directWatchSeconds=10,directReconnectGraceSeconds=2', 10_000, 2_000],
  ])(
    'whose socket is gone counts for %s, also over sleeps, and then ended with its process',
    (_, set, watchMs, graceMs) => {
      const device = new CoreDevice(startMs, { limits: limitsOf(set) });
      connect(device);
      expect(device.state.direct.checkAtMs).toBe(startMs + watchMs);
      device.sleep();
      expect(isOnlineWithoutSocket(device, 0)).toBe(true);
      device.sleep();
      expect(isOnlineWithoutSocket(device, graceMs - 1)).toBe(true);
      expect(isOnlineWithoutSocket(device, 1)).toBe(false);
      expect(details(device)).toEqual(['offline deployed', 'online']);
    },
  );

  it('sets one alarm for its watch, which a check moves on only once it has passed', () => {
    const device = new CoreDevice(startMs);
    const startedAtMs = connect(device);
    const check = () => {
      const open = { startedAtMs, lastPacketAtMs: device.nowMs, silentFromMs: device.nowMs + 90_000 };
      device.run({ kind: 'direct_checked', open });
    };
    const isWatched = () => device.state.direct.checkAtMs;
    expect(isWatched()).toBe(startMs + 300_000);
    for (let minute = 1; minute < 5; minute++) {
      device.nowMs = startMs + minute * 60_000;
      check();
    }
    expect(isWatched()).toBe(startMs + 300_000);
    device.nowMs = startMs + 300_000;
    check();
    expect(isWatched()).toBe(startMs + 600_000);
    // The longer it has lasted the less often, up to three times the first.
    for (const [atMs, nextMs] of [
      [600_000, 1_200_000],
      [1_200_000, 2_100_000],
      [86_400_000, 87_300_000],
    ] as const) {
      device.nowMs = startMs + atMs;
      check();
      expect(isWatched()).toBe(startMs + nextMs);
    }
  });

  it('publishes its announcements only where somebody may hear them', () => {
    const device = new CoreDevice(startMs);
    const startedAtMs = connect(device);
    end(device, startedAtMs, 'clean');
    const announced = device.effects.filter((effect) => effect.kind === 'publish_announcement');
    expect(announced.map(({ isDirect }) => isDirect)).toEqual([true, true]);
    device.run({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs: device.nowMs + 5 } });
    const last = device.effects.findLast((effect) => effect.kind === 'publish_announcement');
    expect(last?.isDirect).toBe(false);
  });
});

describe('packets of a connection', () => {
  it('are as large as the limit at most', () => {
    const limits = limitsOf('directPacketBytes=1024');
    const readAll = (length: number) => {
      const connection = open();
      // A PUBLISH of that length in all: its type, two bytes that tell how much follows, and that.
      const left = length - 3;
      connection.reader.push(Uint8Array.of(0x30, (left % 128) + 128, Math.floor(left / 128)));
      connection.reader.push(new Uint8Array(left));
      const read = { packets: 0, isTooFast: false };
      return [...connection.packets({ limits, rateLimits: 'production' }, read, startMs)];
    };
    expect(readAll(1024)).toMatchObject([{ type: 3 }]);
    expect(readAll(1025)).toEqual([{ malformed: 'packet_too_large' }]);
  });

  it('are a burst and then so many a second', () => {
    const limits = limitsOf('directPacketsPerSecond=5');
    const burst = directLimits.packetBurst;
    const connection = open();
    const taken = (sent: number, atMs: number, rateLimits: 'production' | 'relaxed' = 'production') => {
      connection.reader.push(Uint8Array.from({ length: sent * 2 }, (_, at) => (at % 2 === 0 ? 0xc0 : 0)));
      const read = { packets: 0, isTooFast: false };
      const packets = [...connection.packets({ limits, rateLimits }, read, atMs)];
      return [packets.length, read.isTooFast];
    };
    expect(taken(burst + 10, startMs)).toEqual([burst, true]);
    expect(taken(20, startMs + 1_000)).toEqual([5, true]);
    expect(taken(0, startMs + 60_000, 'relaxed')).toEqual([23, false]);
    expect(taken(5, startMs + 61_000)).toEqual([5, false]);
  });
});
