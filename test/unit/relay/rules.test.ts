// What a relay client may do, from its attachment alone.
import { expect, it } from 'vitest';
import {
  checkPublish,
  checkSubscription,
  deadlineOf,
  isSameIdentity,
  type RelayClient,
  type RelayIdentity,
} from '../../../src/objects/relay/rules.ts';

const device = { kind: 'device', productKey: 'switch', deviceId: 'dev_00000001', generation: 1 } as const;
const user = { kind: 'user', userId: 7, expiresAtMs: 5_000 } as const;
const client = (who: RelayIdentity | null, filters: string[] = []): RelayClient => ({
  ...{ socketId: 's', address: '203.0.113.7', openedAtMs: 1_000, failedAuths: 0, isEnded: false, isMqtt: false },
  who,
  filters,
});
const topicOf = (deviceId: string, action: string) => `/sys/switch/${deviceId}/${action}`;
const own = topicOf('dev_00000001', 'status');
const foreign = topicOf('dev_00000002', 'status');
const notAuthenticated = {
  ok: false,
  refusal: { kind: 'credential_refused', credential: 'session', problem: 'missing' },
};

it('refuses everything before authentication', () => {
  for (const nobody of [undefined, client(null)]) {
    expect(checkSubscription(nobody, own)).toEqual(notAuthenticated);
    expect(checkPublish(nobody?.who, own)).toEqual(notAuthenticated);
  }
});

it('lets device credentials subscribe to their own device only, and a user name any device', () => {
  expect(checkSubscription(client(device), own)).toMatchObject({ ok: true, value: { isNew: true } });
  expect(checkSubscription(client(device, [own]), own)).toMatchObject({ ok: true, value: { isNew: false } });
  const forbidden = { refusal: { kind: 'topic_forbidden', action: 'subscribe', topic: foreign } };
  expect(checkSubscription(client(device), foreign)).toMatchObject(forbidden);
  expect(checkSubscription(client(user), foreign)).toMatchObject({
    value: { target: { kind: 'device', device: { deviceId: 'dev_00000002' } } },
  });
});

it('lets a user, and nobody else, subscribe to all devices, or to those of one product', () => {
  for (const [filter, productKey] of [
    ['/sys/+/+/#', undefined],
    ['/sys/+/+/status', undefined],
    ['/sys/switch/+/thing/event/#', 'switch'],
  ] as const) {
    expect(checkSubscription(client(user), filter)).toMatchObject({ value: { target: { kind: 'fleet', productKey } } });
    expect(checkSubscription(client(device), filter)).toMatchObject({ ok: false });
  }
  for (const filter of [
    '#',
    '/sys/#',
    '/sys/+/#',
    '/sys/+/+',
    '/sys/+/dev_00000001/#',
    '/sys/a b/+/#',
    '/sys/+/+/#/x',
  ]) {
    expect(checkSubscription(client(user), filter), filter).toMatchObject({ refusal: { kind: 'topic_forbidden' } });
  }
});

it('limits new subscriptions to 20 with device credentials and to 200 with a token', () => {
  for (const [who, max] of [
    [device, 20],
    [user, 200],
  ] as const) {
    const filters = Array.from({ length: max }, (_, index) => topicOf('dev_00000001', `x${index}`));
    const full = client(who, filters);
    const refusal = { kind: 'limit_reached', limit: { name: 'relaySubscriptions', max } };
    expect(checkSubscription(full, own)).toEqual({ ok: false, refusal });
    expect(checkSubscription(full, filters[0]!)).toMatchObject({ ok: true, value: { isNew: false } });
    expect(checkSubscription(client(who, filters.slice(1)), own).ok).toBe(true);
  }
});

it('lets only device credentials publish, and only on the topics of their device', () => {
  expect(checkPublish(device, own)).toMatchObject({ ok: true, value: { action: 'status' } });
  for (const topic of [foreign, topicOf('dev_00000001', 'thing/service/property/set'), `${own}/more`]) {
    expect(checkPublish(device, topic)).toMatchObject({ refusal: { kind: 'topic_forbidden', topic } });
  }
  expect(checkPublish(user, own)).toMatchObject({ refusal: { kind: 'topic_forbidden', action: 'publish' } });
});

it('closes an unauthenticated socket after ten seconds, a user’s with its token, a device’s never', () => {
  expect([null, user, device].map((who) => deadlineOf(client(who)))).toEqual([11_000, 5_000, Infinity]);
});

it('tells one identity from another', () => {
  expect(isSameIdentity(user, { ...user, expiresAtMs: 9_000 })).toBe(true);
  expect(isSameIdentity(user, { ...user, userId: 8 })).toBe(false);
  expect(isSameIdentity(device, { ...device, generation: 3 })).toBe(true);
  expect(isSameIdentity(device, user)).toBe(false);
  expect(isSameIdentity(null, user)).toBe(false);
});
