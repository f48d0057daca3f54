// Who may open a relay socket, keep it, and send on it: sockets by address, user and device, and frames a second.
import { describe, expect, it } from 'vitest';
import { limitsOf } from '../limits-of.ts';
import {
  FrameRates,
  frameLimits,
  socketLimitReached,
  socketLimits,
  surplusOf,
} from '../../../src/objects/relay/admission.ts';
import { inPerson } from '../../../src/domain/access.ts';
import type { RelayClient, RelayIdentity } from '../../../src/objects/relay/rules.ts';

const user = (userId: number): RelayIdentity => ({ kind: 'user', ...inPerson(userId), expiresAtMs: null });

/** Clients by name, oldest first. */
class Clients extends Map<string, RelayClient> {
  open(address: string, ...names: string[]): this {
    const opened = { address, openedAtMs: 0, failedAuths: 0, who: null, filters: [], isEnded: false };
    for (const name of names) this.set(name, { socketId: name, ...opened });
    return this;
  }

  change(name: string, change: Partial<RelayClient>): this {
    return this.set(name, { ...this.get(name)!, ...change });
  }
}

const limits = {
  ...{ relayUnauthenticatedPerAddress: 2, relaySocketsPerAddress: 3, relaySocketsPerShard: 4 },
  ...{ relayUnauthenticatedPerShard: 2, relaySocketsPerUser: 2, relaySocketsPerDevice: 1 },
};
const reached = (clients: Clients, address: string) => socketLimitReached(clients, address, limits);

describe('one more socket', () => {
  it('is refused for those that were closed as well, until the connection is gone', () => {
    const clients = new Clients().open('home', 'a', 'mute').change('mute', { isEnded: true });
    expect(reached(clients, 'home')).toMatchObject({ name: 'relayUnauthenticatedPerAddress' });
    clients.delete('mute');
    expect(reached(clients, 'home')).toBeUndefined();
  });

  it('is refused to an address with too many in all, and to everybody at a full shard', () => {
    const clients = new Clients().open('home', 'a', 'b', 'c');
    for (const name of 'abc') clients.change(name, { who: user(1) });
    expect(reached(clients, 'home')).toEqual({ name: 'relaySocketsPerAddress', max: 3 });
    clients.open('elsewhere', 'd');
    expect(reached(clients, 'anywhere')).toEqual({ name: 'relaySocketsPerShard', max: 4 });
  });
});

it('too many sockets without authentication push out the oldest, never one that has authenticated', () => {
  const clients = new Clients().open('home', 'a', 'b', 'c', 'd').change('a', { who: user(1) });
  expect(surplusOf(clients, null, limits)).toEqual(['b']);
  expect(surplusOf(clients.change('b', { isEnded: true }), null, limits)).toEqual([]);
});

it('takes its limits from relaySocketsPerAddress, relaySocketsPerShard and relaySocketsPerUser', () => {
  const set = limitsOf('relaySocketsPerAddress=50,relaySocketsPerShard=100,relaySocketsPerUser=7');
  expect(socketLimits(set)).toMatchObject({
    ...{ relaySocketsPerAddress: 50, relaySocketsPerShard: 100, relaySocketsPerUser: 7 },
    ...{ relayUnauthenticatedPerAddress: 5, relayUnauthenticatedPerShard: 20 },
  });
  expect(frameLimits(limitsOf('relayFramesPerSecond=7')).ofSocket).toEqual({ burst: 300, perSecond: 7 });
});

describe('frames', () => {
  const rates = () =>
    new FrameRates({
      ...{ ofSocket: { burst: 10, perSecond: 2 }, ofClient: { burst: 10, perSecond: 1 } },
    });
  const count = (mayPass: () => boolean) => Array.from({ length: 15 }, mayPass).filter(Boolean).length;

  it('of a socket pass in a burst, then at a steady rate, and never save up more than a burst', () => {
    const frames = rates();
    const [socket, neighbour] = [{}, {}];
    expect(count(() => frames.mayBeSentOn(socket, 1_000))).toBe(10);
    expect(count(() => frames.mayBeSentOn(socket, 2_500))).toBe(3);
    expect(count(() => frames.mayBeSentOn(socket, 60_000_000))).toBe(10);
    expect(count(() => frames.mayBeSentOn(neighbour, 2_500))).toBe(10);
  });

  it('that ask for many devices count as more, and what they owe is paid by the frames behind them', () => {
    const frames = rates();
    const client = new Clients().open('home', 'a').get('a')!;
    const sent = (nowMs: number, cost?: number) => frames.mayBeSentBy(client, nowMs, cost);
    expect([sent(0, 9), sent(0, 20), sent(0), sent(19_000), sent(20_000)]).toEqual([true, true, false, false, true]);
  });

  it('of all sockets of a client count together: of its user or device, and of its address before', () => {
    const frames = rates();
    const clients = new Clients()
      .open('home', 'a', 'b', 'c')
      .change('b', { who: user(1) })
      .change('c', { who: user(1) });
    const sent = (name: string, nowMs: number) => count(() => frames.mayBeSentBy(clients.get(name)!, nowMs));
    expect([sent('b', 0), sent('c', 0), sent('a', 0)]).toEqual([10, 0, 10]);
    expect(sent('c', 4_000)).toBe(4);
  });
});
