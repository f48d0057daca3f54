// Texts of a device are told apart.
import { expect, it } from 'vitest';
import { fingerprint } from '../../../src/domain/fingerprint.ts';

it('is the same for the same text and short enough to keep many', () => {
  expect(fingerprint('{"position":"up"}')).toBe(fingerprint('{"position":"up"}'));
  for (const text of ['', 'é', '\u{1f600}', 'x'.repeat(16_384)]) {
    expect(Number.isSafeInteger(fingerprint(text))).toBe(true);
    expect(fingerprint(text)).toBeGreaterThanOrEqual(0);
  }
});

it('differs between reports that differ by as little as reports do', () => {
  const seen = new Set<number>();
  for (let id = 0; id < 20_000; id++) {
    for (const position of ['up', 'down']) {
      seen.add(fingerprint(`{"id":"${id}","params":{"position":"${position}","wifi_rssi":-5${id % 10}}}`));
    }
  }
  expect(seen.size).toBe(40_000);
});

it('spreads over all of its bits', () => {
  const counts = Array.from({ length: 53 }, () => 0);
  const texts = 4_096;
  for (let id = 0; id < texts; id++) {
    const digits = fingerprint(`{"id":"${id}"}`).toString(2).padStart(53, '0');
    for (let bit = 0; bit < 53; bit++) counts[bit] = (counts[bit] ?? 0) + Number(digits[bit]);
  }
  for (const ones of counts) expect(Math.abs(ones / texts - 0.5)).toBeLessThan(0.05);
});

it('sees order and length', () => {
  const texts = ['ab', 'ba', 'aab', 'aba', 'aaab', '\0', '\0\0', '', '0', '00'];
  expect(new Set(texts.map(fingerprint)).size).toBe(texts.length);
});
