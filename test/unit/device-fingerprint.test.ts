// Texts of a device are told apart.
import { describe, expect, it } from 'vitest';
import { fingerprint } from '../../src/domain/device/fingerprint.ts';

describe('a fingerprint', () => {
  it('is the same for the same text and short enough to keep many', () => {
    expect(fingerprint('{"position":"up"}')).toBe(fingerprint('{"position":"up"}'));
    for (const text of ['', 'é', '\u{1f600}', 'x'.repeat(16_384)]) expect(fingerprint(text)).toMatch(/^[0-9a-f]{16}$/);
  });

  it('differs between reports that differ by as little as reports do', () => {
    const seen = new Set<string>();
    for (let id = 0; id < 20_000; id++) {
      for (const position of ['up', 'down']) {
        seen.add(fingerprint(`{"id":"${id}","params":{"position":"${position}","wifi_rssi":-5${id % 10}}}`));
      }
    }
    expect(seen.size).toBe(40_000);
  });

  it('is 64-bit FNV-1a', () => {
    expect(fingerprint('')).toBe('cbf29ce484222325');
    expect(fingerprint('a')).toBe('af63dc4c8601ec8c');
    expect(fingerprint('foobar')).toBe('85944171f73967e8');
  });

  it('sees order and length', () => {
    const texts = ['ab', 'ba', 'aab', 'aba', 'aaab', '\0', '\0\0', '', '0', '00'];
    expect(new Set(texts.map(fingerprint)).size).toBe(texts.length);
  });
});
