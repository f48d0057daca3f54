// Floods of pings that the platform answers, found by the times of the last ones.
import { expect, it } from 'vitest';
import { RelayPingWatch } from '../../../src/objects/relay/ping-watch.ts';

/** Sockets by how often they ping; each look is 10 ms later. */
function watchOf(everyMs: Record<string, number | undefined>) {
  let nowMs = 100_000;
  const watch = new RelayPingWatch<string>((socket) => {
    const every = everyMs[socket];
    return every === undefined ? undefined : Math.floor(nowMs / every) * every;
  });
  let looks = 0;
  const wait = () => {
    nowMs += 10;
    looks += 1;
    return Promise.resolve();
  };
  return { find: () => watch.look(Object.keys(everyMs), nowMs, wait), looks: () => looks };
}

it('finds who pings at most looks, or with gaps, and nobody else', async () => {
  const { find } = watchOf({ flood: 1, gaps: 25, hasty: 60, fine: 30_000, mute: undefined });
  expect(await find()).toEqual(['flood', 'gaps']);
});

it('soon stops to look where the last ping was a moment ago, and not at all where nobody has pinged', async () => {
  const calm = watchOf({ fine: 100_000, other: undefined });
  expect(await calm.find()).toEqual([]);
  expect(calm.looks()).toBe(5);
  const idle = watchOf({ old: 70_000, other: undefined });
  expect(await idle.find()).toEqual([]);
  expect(idle.looks()).toBe(0);
});
