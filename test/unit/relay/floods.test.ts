// What follows for the address of a relay client that sent too much.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RelayFloods } from '../../../src/objects/relay/floods.ts';
import { readLimits } from '../../../src/limits.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('may open no other socket for as long as the limit says, and each end counts anew; others may', () => {
  const ended: string[] = [];
  const floods = new RelayFloods<string>(readLimits('relayBlockSeconds=2'), {
    sockets: () => [],
    addressOf: () => 'home',
    pingedAtMs: () => undefined,
    end: (socket) => ended.push(socket),
  });
  const limitOf = (address: string) => floods.limitReachedBy(address, Date.now());
  expect(limitOf('home')).toBeUndefined();
  floods.end('a');
  vi.advanceTimersByTime(1_000);
  floods.end('b');
  vi.advanceTimersByTime(1_999);
  expect(limitOf('home')).toEqual({ name: 'relayBlockSeconds', max: 2 });
  expect(limitOf('elsewhere')).toBeUndefined();
  vi.advanceTimersByTime(1);
  expect(limitOf('home')).toBeUndefined();
  expect(ended).toEqual(['a', 'b']);
});
