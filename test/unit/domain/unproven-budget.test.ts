// What may wake objects of devices before a password was shown: by device, by network and in all.
import { expect, it } from 'vitest';
import { UnprovenBudget } from '../../../src/services/sockets/unproven-budget.ts';

const many = 1_000;

it.each<[string, { device: number; network: number; all: number }, (n: number) => [string, string]]>([
  ['one device', { device: 3, network: many, all: many }, (n) => ['dev_1', `198.51.100.${n}`]],
  ['one network', { device: many, network: 3, all: many }, (n) => [`dev_${n}`, '198.51.100.1']],
  ['all of them', { device: many, network: many, all: 3 }, (n) => [`dev_${n}`, `198.51.100.${n}`]],
])('is limited for %s, and there is more with time', (_, perMinute, ask) => {
  const budget = new UnprovenBudget(perMinute);
  const take = (n: number, nowMs: number) => budget.take(...ask(n), nowMs);
  expect([1, 2, 3, 4, 5].map((n) => take(n, 0))).toEqual([true, true, true, false, false]);
  expect([6, 7].map((n) => take(n, 20_000))).toEqual([true, false]);
});

it('is not spent by what is refused', () => {
  const budget = new UnprovenBudget({ device: 1, network: 2, all: many });
  expect(['a', 'a', 'a', 'b'].map((device) => budget.take(device, 'network', 0))).toEqual([true, false, false, true]);
});
