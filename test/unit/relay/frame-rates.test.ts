// Token buckets of relay frames: a burst, then a steady rate, for a socket and for all sockets of a client.
import { expect, it } from 'vitest';
import { readLimits } from '../../../src/limits.ts';
import { RelayFrameRates } from '../../../src/objects/relay/frame-rates.ts';

const ratesWith = (limits: string) => new RelayFrameRates(readLimits(limits));
const count = (times: number, mayPass: () => boolean) => Array.from({ length: times }, mayPass).filter(Boolean).length;

it('lets a burst of a socket through, then a steady rate, and never saves up more than a burst', () => {
  const rates = ratesWith('relayFrameBurst=10,relayFramesPerSecond=2');
  const [socket, other] = [{}, {}];
  expect(count(15, () => rates.mayBeSentOn(socket, 1_000))).toBe(10);
  expect(count(15, () => rates.mayBeSentOn(socket, 2_500))).toBe(3);
  expect(count(15, () => rates.mayBeSentOn(socket, 60_000_000))).toBe(10);
  expect(
    count(15, () => rates.mayBeSentOn(other, 2_500)),
    'another socket',
  ).toBe(10);
});

it('counts the sockets of a client together, and lets others be', () => {
  const rates = ratesWith('relayClientFrameBurst=10,relayClientFramesPerSecond=1');
  expect(count(15, () => rates.mayBeSentBy('user 1', 0))).toBe(10);
  expect(count(15, () => rates.mayBeSentBy('user 2', 0))).toBe(10);
  expect(count(15, () => rates.mayBeSentBy('user 1', 4_000))).toBe(4);
});

it('forgets clients that are quiet, and none that is not, when there are very many', () => {
  const rates = ratesWith('relayClientFrameBurst=2,relayClientFramesPerSecond=1');
  for (let client = 0; client < 10_000; client++) rates.mayBeSentBy(`user ${client}`, 0);
  expect(count(5, () => rates.mayBeSentBy('flood', 5_000))).toBe(2);
  for (let client = 0; client < 9_999; client++) rates.mayBeSentBy(`later ${client}`, 5_000);
  expect(count(5, () => rates.mayBeSentBy('flood', 5_000))).toBe(0);
});

it('gives nothing for a clock that jumps back and forth', () => {
  const rates = ratesWith('relayFrameBurst=2,relayFramesPerSecond=1');
  const socket = {};
  expect(count(3, () => rates.mayBeSentOn(socket, 9_000))).toBe(2);
  expect(count(3, () => rates.mayBeSentOn(socket, 1_000))).toBe(0);
  expect(count(3, () => rates.mayBeSentOn(socket, 9_000))).toBe(0);
});
