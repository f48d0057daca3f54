// What a relay client may subscribe to, from its attachment alone.
import { expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { checkSubscription, type RelayClient, type RelayIdentity } from '../../../src/objects/relay/rules.ts';

const device = { kind: 'device', productKey: 'switch', deviceId: 'dev_00000001', generation: 1 } as const;
const user = { kind: 'user', ...inPerson(7), expiresAtMs: 5_000 } as const;
const client = (who: RelayIdentity | null, filters: string[] = []): RelayClient => ({
  ...{ socketId: 's', address: '203.0.113.7', openedAtMs: 1_000, failedAuths: 0, isEnded: false, isMqtt: false },
  who,
  filters,
});
const topicOf = (deviceId: string, action: string) => `/sys/switch/${deviceId}/${action}`;
const own = topicOf('dev_00000001', 'status');

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
