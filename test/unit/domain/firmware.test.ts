// Versions, ranges of an image, and what a wave says of the next one.
import { describe, expect, it } from 'vitest';
import { readManifest, readRange } from '../../../src/domain/firmware/images.ts';
import { isSettled, mayOffer, pauseCauseOf, type WaveCounts } from '../../../src/domain/firmware/waves.ts';
import { compareVersions } from '../../../src/protocol/firmware.ts';

it.each([
  ['1.2', '1.2.0.0', 0],
  ['1.10', '1.9', 1],
  ['2', '10', -1],
  ['1.2.3.4', '1.2.3.5', -1],
  ['1.0', '1.0.0.1', -1],
])('the version %s is to %s as %d to 0', (one, other, sign) => {
  expect(Math.sign(compareVersions(one, other))).toBe(sign);
  expect(Math.sign(compareVersions(other, one)) + sign).toBe(0);
});

it('a manifest is refused by the member that is wrong', () => {
  const manifest = { product: 'switch', version: '1.2', size: 10, sha256: 'a'.repeat(64) };
  const problemOf = (more: object) => {
    const read = readManifest(JSON.stringify({ ...manifest, ...more }));
    return read.ok ? undefined : (read.refusal as { path?: string }).path;
  };
  expect(problemOf({ notes: 'x', security: true, later: 1 })).toBeUndefined();
  const wrong = { version: '1.2.3.4.5', size: 16 * 1024 * 1024 + 1, sha256: 'A'.repeat(64), minimumVersion: 'v1' };
  for (const [name, value] of Object.entries(wrong)) expect(problemOf({ [name]: value })).toBe(`manifest.${name}`);
  expect(readManifest('{"version":').ok).toBe(false);
});

it.each<[string, number, number]>([
  ['bytes=0-0', 0, 1],
  ['bytes=0-9', 0, 10],
  ['Bytes=3-', 3, 7],
  ['bytes=8-4000', 8, 2],
  ['bytes=-3', 7, 3],
  ['bytes=-40', 0, 10],
])('the range %s of 10 bytes begins at %d and has %d', (header, offset, length) => {
  expect(readRange(header, 10)).toEqual({ offset, length });
});

it.each(['bytes=10-', 'bytes=-0', 'bytes=-', 'bytes=3-2', 'bytes=0-1,3-4', 'bytes=1', 'bytes= 0-1', 'lines=0-1', ''])(
  'the range %j of 10 bytes has none',
  (header) => expect(readRange(header, 10)).toBeUndefined(),
);

describe('a wave', () => {
  const stopAt = { failedPercent: 5, offlinePercent: 10 };
  const nothing = { failures: 0, away: 0 };
  const wave = (outcomes: WaveCounts['outcomes'], away = 0, usuallyAway = 0, absent = 0) => {
    return {
      devices: Object.values(outcomes).reduce((sum, count) => sum + count, 0),
      outcomes,
      absent,
      away,
      usuallyAway,
    };
  };

  it.each<[WaveCounts, string | undefined]>([
    [wave({ proved: 95, failed: 2, rolled_back: 2, unknown: 1 }), undefined],
    [wave({ proved: 94, failed: 2, rolled_back: 2, unknown: 2 }), 'failures'],
    [wave({ offered: 1, failed: 1 }), 'failures'],
    [wave({ proved: 40, skipped: 60 }, 4), undefined],
    [wave({ proved: 40, skipped: 60 }, 5), 'away'],
    [wave({ proved: 40, skipped: 60 }, 5, 1.5), undefined],
  ])('%j pauses its campaign: %s', (counts, cause) => {
    expect(pauseCauseOf(counts, stopAt, nothing)).toBe(cause);
  });

  it('does not pause again for what its maker knew when it was resumed', () => {
    const failing = wave({ proved: 8, failed: 2 }, 2);
    expect(pauseCauseOf(failing, stopAt, { failures: 2, away: 2 })).toBeUndefined();
    expect(pauseCauseOf(failing, stopAt, { failures: 1, away: 2 })).toBe('failures');
    expect(pauseCauseOf(failing, stopAt, { failures: 2, away: 1 })).toBe('away');
  });

  it('is settled when each of its devices has an end, or waits for its owner', () => {
    expect(isSettled(wave({ proved: 1, failed: 1, skipped: 1, superseded: 1, postponed: 1 }))).toBe(true);
    expect(isSettled(wave({ proved: 9, waiting: 1 }))).toBe(false);
    expect(isSettled(wave({}))).toBe(true);
    expect(isSettled(wave({ proved: 1, offered: 2 }, 0, 0, 2))).toBe(true);
    expect(isSettled(wave({ proved: 1, offered: 2 }, 0, 0, 1))).toBe(false);
    expect(isSettled(wave({ failed: 1, offered: 2 }, 0, 0, 2))).toBe(false);
  });

  it.each([
    ['01:00', '04:30', '00:59', false],
    ['01:00', '04:30', '01:00', true],
    ['01:00', '04:30', '04:30', false],
    ['23:00', '02:00', '23:30', true],
    ['23:00', '02:00', '01:59', true],
    ['23:00', '02:00', '12:00', false],
  ])('with a window from %s to %s is offered at %s: %s', (begin, end, time, expected) => {
    expect(mayOffer({ window: { begin, end } }, Date.parse(`2027-05-06T${time}Z`))).toBe(expected);
  });
});
