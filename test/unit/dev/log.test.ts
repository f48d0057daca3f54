// Which lines the log writes: each warning and error, and of other lines a share and so many a second.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { log, sampleInfoLines } from '../../../src/log.ts';

function countLines(level: 'info' | 'warn' | 'error', times: number): number {
  const written = vi.spyOn(console, level).mockImplementation(() => undefined);
  for (let number = 0; number < times; number++) {
    vi.spyOn(Math, 'random').mockReturnValue(number / times);
    log(level, 'something happened');
  }
  return written.mock.calls.length;
}

afterEach(() => {
  vi.restoreAllMocks();
  sampleInfoLines(1, Infinity);
});

describe('a share of the lines', () => {
  it.each([
    [0, 0],
    [0.1, 10],
    [1, 100],
  ])('of %d writes that share of level info', (share, lines) => {
    sampleInfoLines(share, Infinity);
    expect(countLines('info', 100)).toBe(lines);
  });

  it('never drops a warning or an error', () => {
    sampleInfoLines(0, Infinity);
    expect([countLines('warn', 100), countLines('error', 100)]).toEqual([100, 100]);
  });

  it('is not taken once more by the platform', () => {
    const wrangler = readFileSync(new URL('../../../wrangler.toml', import.meta.url), 'utf8');
    expect(/^head_sampling_rate = (.*)$/m.exec(wrangler)?.[1]).toBe('1');
  });
});

it('says in a later second how many lines it left out, and never drops a warning or an error', () => {
  const perSecond = 100;
  sampleInfoLines(1, perSecond);
  const clock = vi.spyOn(Date, 'now').mockReturnValue(5_000);
  const warnings = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  expect(countLines('info', perSecond + 7)).toBe(perSecond);
  expect(countLines('error', perSecond + 7)).toBe(perSecond + 7);
  expect(warnings).not.toHaveBeenCalled();
  clock.mockReturnValue(9_000);
  expect(countLines('info', 1)).toBe(perSecond + 1);
  expect(warnings.mock.calls).toEqual([[JSON.stringify({ level: 'warn', event: 'info lines left out', lines: 7 })]]);
});
