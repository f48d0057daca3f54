// Token buckets on a driven clock.
import { describe, expect, it } from 'vitest';
import { Buckets, fullBucket, takeInAdvance, takeToken, waitForTokenMs } from '../../../src/domain/token-bucket.ts';

const rate = { burst: 3, perSecond: 2 };

describe('a token bucket', () => {
  it('gives its burst at once, then its rate', () => {
    const bucket = fullBucket(rate, 0);
    expect([0, 0, 0, 0].map((nowMs) => takeToken(bucket, rate, nowMs))).toEqual([true, true, true, false]);
    expect(waitForTokenMs(bucket, rate, 0)).toBe(500);
    expect([499, 500, 999, 1_000].map((nowMs) => takeToken(bucket, rate, nowMs))).toEqual([false, true, false, true]);
  });

  it('never holds more than its burst, and takes no harm from a clock that goes back', () => {
    const bucket = fullBucket(rate, 1_000_000);
    expect(takeToken(bucket, rate, 0)).toBe(true);
    const later = Array.from({ length: 5 }, () => takeToken(bucket, rate, 9_000_000));
    expect(later).toEqual([true, true, true, false, false]);
  });

  it('gives tokens in advance up to a wait, one behind the other', () => {
    const bucket = fullBucket(rate, 0);
    const waits = Array.from({ length: 7 }, () => takeInAdvance(bucket, rate, 1_000, 0));
    expect(waits).toEqual([0, 0, 0, 500, 1_000, undefined, undefined]);
    expect(takeInAdvance(bucket, rate, 1_000, 500)).toBe(1_000);
  });
});

it('buckets by name do not touch each other, and an empty one is not forgotten where there are too many', () => {
  const buckets = new Buckets({ burst: 1, perSecond: 0.001 }, 2);
  expect([buckets.take('one', 0), buckets.take('one', 0)]).toEqual([true, false]);
  for (const name of ['two', 'three', 'four']) expect(buckets.take(name, 0)).toBe(true);
  expect(buckets.take('one', 0)).toBe(false);
});
