// What an isolate remembers beside its requests is bounded.
import { expect, it } from 'vitest';
import { rememberNewest } from '../../../src/domain/newest.ts';

it('the newest entries are remembered, also where one is written again or the limit was lowered', () => {
  const entries = new Map<string, number>();
  ['a', 'b', 'a', 'c'].forEach((key, index) => rememberNewest(entries, key, index, 2));
  expect([...entries]).toEqual([
    ['a', 2],
    ['c', 3],
  ]);
  rememberNewest(entries, 'd', 4, 1);
  expect([...entries.keys()]).toEqual(['d']);
});
