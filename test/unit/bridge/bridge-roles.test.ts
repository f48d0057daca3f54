// Rules of the bridges' roles, as plain data.
import { expect, it } from 'vitest';
import {
  conflictWith,
  isInactive,
  lacksHello,
  mustMakeWay,
  nextCheckAtMs,
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

it('looks again at the earliest time at which a rule may apply, and never for a lone active bridge', () => {
  const standby = bridge({ role: 'standby', lastSeenAtMs: 30_000 });
  const active = bridge({ isBrokerConnected: false, changedAtMs: 10_000, lastSeenAtMs: 30_000 });
  expect(nextCheckAtMs([])).toBeUndefined();
  expect(nextCheckAtMs([active])).toBeUndefined();
  expect(nextCheckAtMs([active, standby])).toBe(25_000);
  expect(nextCheckAtMs([bridge({ lastSeenAtMs: 30_000 }), standby])).toBe(39_000);
  expect(nextCheckAtMs([active, bridge({ role: null, openedAtMs: 1_000 })])).toBe(6_000);
});

it('finds no conflict with itself or with one that is gone', () => {
  const one = { bridgeId: 'one', spoolId: 'one-a', sessionDigest: 's', role: 'active' as const };
  const joins = (bridge: object, other: object = one) =>
    conflictWith([other as typeof one], bridge as typeof one) === undefined;
  expect(joins({ bridgeId: 'two', spoolId: 'two-a', sessionDigest: 's' })).toBe(true);
  expect(joins({ bridgeId: 'one', spoolId: 'one-a', sessionDigest: 't' })).toBe(true);
  expect(joins({ bridgeId: 'one', spoolId: 'one-b', sessionDigest: 's' }, { ...one, role: null })).toBe(true);
});
