// The wait after wrong passwords, as numbers.
import { expect, it } from 'vitest';
import { loginDelayMs } from '../../src/domain/login-delay.ts';

it('is nothing for the first failures, then doubles from 1 s to 15 minutes', () => {
  const seconds = [0, 1, 4, 5, 6, 7, 8, 14, 15, 16, 1000].map((failures) => loginDelayMs(failures) / 1000);
  expect(seconds).toEqual([0, 0, 0, 1, 2, 4, 8, 512, 900, 900, 900]);
});
