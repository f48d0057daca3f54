// What a relay shard counts: sockets per address, user and device, and bytes that were sent and not shown to be read.
import { describe, expect, it } from 'vitest';
import { readLimits } from '../../../src/limits.ts';
import { bytesPerReadingCheck, RelayCensus } from '../../../src/objects/relay/census.ts';

const kib = 1024;
const censusWith = (limits: string) => new RelayCensus<string>(readLimits(limits));

function open(census: RelayCensus<string>, address: string, ...sockets: string[]): string[] {
  return sockets.flatMap((socket) => census.open(socket, address));
}

describe('sockets of one address', () => {
  it('are limited until they authenticate, those of other addresses apart', () => {
    const census = censusWith('relayUnauthenticatedPerAddress=2');
    open(census, 'home', 'a', 'b');
    expect(census.limitReachedBy('home')).toEqual({ name: 'relayUnauthenticatedPerAddress', max: 2 });
    expect(census.limitReachedBy('elsewhere')).toBeUndefined();
    census.signIn('a', 'user 1', 10);
    expect(census.limitReachedBy('home')).toBeUndefined();
  });

  it('count after the end until the connection is gone', () => {
    const census = censusWith('relayUnauthenticatedPerAddress=1');
    open(census, 'home', 'mute');
    census.end('mute');
    expect(census.limitReachedBy('home')).toMatchObject({ name: 'relayUnauthenticatedPerAddress' });
    census.remove('mute');
    expect(census.limitReachedBy('home')).toBeUndefined();
  });

  it('are limited in all, and so are those of the shard', () => {
    const census = censusWith('relaySocketsPerAddress=2,relaySocketsPerShard=3');
    open(census, 'home', 'a', 'b');
    for (const socket of ['a', 'b']) census.signIn(socket, `user ${socket}`, 10);
    expect(census.limitReachedBy('home')).toEqual({ name: 'relaySocketsPerAddress', max: 2 });
    open(census, 'elsewhere', 'c');
    expect(census.limitReachedBy('anywhere')).toEqual({ name: 'relaySocketsPerShard', max: 3 });
    census.remove('a');
    expect(census.limitReachedBy('home')).toBeUndefined();
  });
});

describe('sockets of a shard that have not authenticated', () => {
  it('push out the oldest of them, never one that has authenticated', () => {
    const census = censusWith('relayUnauthenticatedPerShard=2');
    expect(open(census, 'home', 'a', 'b', 'c')).toEqual(['a']);
    census.end('a');
    census.signIn('b', 'user 1', 10);
    expect(open(census, 'home', 'd')).toEqual([]);
    expect(open(census, 'home', 'e')).toEqual(['c']);
  });
});

describe('sockets of one user or device', () => {
  it('push out the oldest one, whatever the address', () => {
    const census = censusWith('');
    open(census, 'home', 'a', 'b');
    open(census, 'elsewhere', 'c');
    expect(['a', 'b', 'c'].flatMap((socket) => census.signIn(socket, 'user 1', 2))).toEqual(['a']);
    census.end('a');
    open(census, 'home', 'd');
    expect(census.signIn('d', 'user 2', 2)).toEqual([]);
  });

  it('count once however often one authenticates, and for the identity it has now', () => {
    const census = censusWith('');
    open(census, 'home', 'a', 'b');
    expect(['a', 'a', 'b', 'b'].flatMap((socket) => census.signIn(socket, 'user 1', 2))).toEqual([]);
    census.signIn('a', 'user 2', 2);
    open(census, 'home', 'c');
    expect(census.signIn('c', 'user 1', 2)).toEqual([]);
  });
});

describe('bytes that a client has not shown to have read', () => {
  it('are limited for each socket, and read ones do not count', () => {
    const census = censusWith('relayUnreadBytesPerSocket=262144');
    open(census, 'home', 'a');
    expect(census.mayReceive('a', 200 * kib)).toBe(true);
    const id = census.startReadingCheck('a') ?? '';
    expect(census.mayReceive('a', 57 * kib)).toBe(false);
    expect(census.mayReceive('a', 56 * kib)).toBe(true);
    expect(census.confirmReading('a', id)).toBe(true);
    expect(census.mayReceive('a', 201 * kib), 'what was sent after the ping is still unread').toBe(false);
    expect(census.mayReceive('a', 200 * kib)).toBe(true);
  });

  it('may be more at once than the limit, because somebody who reads everything has not had the time', () => {
    const census = censusWith('relayUnreadBytesPerSocket=262144');
    open(census, 'home', 'a');
    expect(census.mayReceive('a', 1024 * kib)).toBe(true);
    expect(census.mayReceive('a', 1)).toBe(false);
  });

  it('are asked about once they are enough, one question at a time, and a guess answers none', () => {
    const census = censusWith('');
    open(census, 'home', 'a');
    census.mayReceive('a', bytesPerReadingCheck - 1);
    expect(census.startReadingCheck('a')).toBeUndefined();
    census.mayReceive('a', 1);
    const id = census.startReadingCheck('a');
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(census.startReadingCheck('a')).toBeUndefined();
    expect(census.confirmReading('a', crypto.randomUUID())).toBe(false);
    expect(census.isAwaitingPong('a')).toBe(true);
    expect(census.confirmReading('a', id ?? '')).toBe(true);
    expect(census.confirmReading('a', id ?? ''), 'a pong counts once').toBe(false);
  });

  it.each([
    ['address', 'relayUnreadBytesPerAddress', 'home'],
    ['shard', 'relayUnreadBytesPerShard', 'elsewhere'],
  ])('are limited for each %s, at the cost of those alone who do not read', (_, limit, address) => {
    const census = censusWith(`${limit}=524288`);
    open(census, 'home', 'mute');
    open(census, address, 'reader', 'mute too');
    census.mayReceive('mute', 400 * kib);
    census.end('mute');
    expect(census.mayReceive('mute too', 100 * kib)).toBe(true);
    for (let round = 0; round < 20; round++) {
      expect(census.mayReceive('reader', 100 * kib)).toBe(true);
      expect(census.confirmReading('reader', census.startReadingCheck('reader') ?? '')).toBe(true);
    }
    expect(census.mayReceive('mute too', 100 * kib)).toBe(true);
    expect(census.mayReceive('mute too', 1)).toBe(false);
    census.remove('mute');
    expect(census.mayReceive('mute too', 1), 'the connection is gone, and what it held with it').toBe(true);
  });
});
