// Rules of the bridges' roles, as plain data.
import { describe, expect, it } from 'vitest';
import {
  conflictWith,
  isInactive,
  lacksHello,
  lighterThan,
  mustMakeWay,
  nextCheckAtMs,
  successorAmong,
  type BridgeState,
} from '../../../src/objects/broker-link/bridge-roles.ts';

const bridge = (more: Partial<BridgeState> = {}): BridgeState => ({
  ...{ role: 'active', isBrokerConnected: true, openedAtMs: 0, changedAtMs: 0, lastSeenAtMs: 0 },
  ...more,
});

it('disconnects a socket five seconds after it opened without a hello', () => {
  expect([4_999, 5_000].map((nowMs) => lacksHello(bridge({ role: null }), nowMs))).toEqual([false, true]);
  expect(lacksHello(bridge({ role: 'standby' }), 60_000)).toBe(false);
});

it('counts a bridge as inactive nine seconds after it was last seen', () => {
  expect([9_999, 10_000].map((nowMs) => isInactive(bridge({ lastSeenAtMs: 1_000 }), nowMs))).toEqual([false, true]);
});

it('makes an active bridge make way fifteen seconds after it lost its broker', () => {
  const brokerless = bridge({ isBrokerConnected: false, changedAtMs: 1_000 });
  expect([15_999, 16_000].map((nowMs) => mustMakeWay(brokerless, nowMs))).toEqual([false, true]);
  expect(mustMakeWay({ ...brokerless, role: 'standby' }, 60_000)).toBe(false);
  expect(mustMakeWay(bridge(), 60_000)).toBe(false);
});

it('promotes the standby that has waited longest and is not inactive', () => {
  const standby = (changedAtMs: number, lastSeenAtMs = 20_000) =>
    bridge({ role: 'standby', changedAtMs, lastSeenAtMs });
  const [inactive, second, first] = [standby(0, 0), standby(9), standby(5)];
  expect(successorAmong([bridge(), inactive, second, first], 20_000)).toBe(first);
  expect(successorAmong([bridge(), inactive], 20_000)).toBeUndefined();
});

it('promotes the standby with the fewest shares before one that has waited longer', () => {
  const [busy, idle] = [
    { role: 'standby' as const, load: 1 },
    { role: 'standby' as const, changedAtMs: 5 },
  ].map(bridge);
  expect(successorAmong([busy!, idle!], 0)).toBe(idle);
});

describe('a share is handed over', () => {
  const active = (activeShares: number[]) => ({ ...bridge({ load: activeShares.length }), activeShares });
  const standby = (load: number, more: Partial<BridgeState> = {}) =>
    bridge({ role: 'standby', load, lastSeenAtMs: 10_000, ...more });

  it('to the standby that has two shares less, once it has been there for five seconds', () => {
    const idle = standby(0);
    expect([4_999, 5_000].map((nowMs) => lighterThan(active([0, 1]), 1, [idle], nowMs))).toEqual([undefined, idle]);
    const heavy = active([0, 1, 2]);
    expect(lighterThan(heavy, 2, [heavy, standby(1), idle], 9_000)).toBe(idle);
    expect(lighterThan(heavy, 2, [standby(2)], 9_000)).toBeUndefined();
    expect(lighterThan(active([0]), 0, [idle], 9_000)).toBeUndefined();
  });

  it('by one link at a time: that of the last share', () => {
    expect(lighterThan(active([0, 1]), 0, [standby(0)], 9_000)).toBeUndefined();
    // The bridge has not said yet that it has this share.
    expect(lighterThan(active([]), 0, [standby(0)], 9_000)).toBeUndefined();
  });

  it('to none that had no broker the last time, or is inactive', () => {
    expect(lighterThan(active([0, 1]), 1, [standby(0, { avoidedUntilMs: 9_001 })], 9_000)).toBeUndefined();
    expect(lighterThan(active([0, 1]), 1, [standby(0, { lastSeenAtMs: 0 })], 9_000)).toBeUndefined();
  });

  it('as soon as it may be: the link looks again then, and only once', () => {
    const bridges = [bridge({ load: 2, lastSeenAtMs: 90_000 }), standby(0, { lastSeenAtMs: 90_000 })];
    expect([0, 5_000].map((nowMs) => nextCheckAtMs(bridges, nowMs))).toEqual([5_000, 99_000]);
    const leaving = standby(2, { leavingUntilMs: 8_000, lastSeenAtMs: 90_000 });
    expect(nextCheckAtMs([leaving, standby(0, { lastSeenAtMs: 90_000 })], 6_000)).toBe(8_000);
  });
});

it('looks again at the earliest time at which a rule may apply, and never for a lone active bridge', () => {
  const standby = bridge({ role: 'standby', lastSeenAtMs: 30_000 });
  const active = bridge({ isBrokerConnected: false, changedAtMs: 10_000, lastSeenAtMs: 30_000 });
  expect(nextCheckAtMs([], 0)).toBeUndefined();
  expect(nextCheckAtMs([active], 0)).toBeUndefined();
  expect(nextCheckAtMs([active, standby], 0)).toBe(25_000);
  expect(nextCheckAtMs([bridge({ lastSeenAtMs: 30_000 }), standby], 0)).toBe(39_000);
  expect(nextCheckAtMs([active, bridge({ role: null, openedAtMs: 1_000 })], 0)).toBe(6_000);
});

it('finds an id that another spool has, and a client id of its own', () => {
  const one = { bridgeId: 'one', spoolId: 'one-a', sessionDigest: 's', role: 'active' as const };
  expect(conflictWith([one], { bridgeId: 'one', spoolId: 'one-b', sessionDigest: 's' })).toBe('idInUse');
  expect(conflictWith([one], { bridgeId: 'two', spoolId: 'two-a', sessionDigest: 't' })).toBe('otherSession');
});

it('finds no conflict with itself, with one that is gone, or with one that says less', () => {
  const one = { bridgeId: 'one', spoolId: 'one-a', sessionDigest: 's', role: 'active' as const };
  const joins = (bridge: object, other: object = one) =>
    conflictWith([other as typeof one], bridge as typeof one) === undefined;
  expect(joins({ bridgeId: 'two', spoolId: 'two-a', sessionDigest: 's' })).toBe(true);
  expect(joins({ bridgeId: 'one', spoolId: 'one-a', sessionDigest: 't' })).toBe(true);
  expect(joins({ bridgeId: 'one', spoolId: 'one-b', sessionDigest: 's' }, { ...one, role: null })).toBe(true);
  expect(joins({ bridgeId: 'one' })).toBe(true);
  expect(joins({ bridgeId: 'two' })).toBe(true);
});
