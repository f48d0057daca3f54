// Which lines the log writes: of those without trouble a share, of warnings and errors every one.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { log, sampleInfoLines } from '../../src/log.ts';

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
  sampleInfoLines(1);
});

describe('a share of the lines', () => {
  it.each([
    [0, 0],
    [0.1, 10],
    [1, 100],
  ])('of %d writes that share of level info', (share, lines) => {
    sampleInfoLines(share);
    expect(countLines('info', 100)).toBe(lines);
  });

  it('never drops a warning or an error', () => {
    sampleInfoLines(0);
    expect([countLines('warn', 100), countLines('error', 100)]).toEqual([100, 100]);
  });

  it('is not taken once more by the platform', () => {
    const wrangler = readFileSync(new URL('../../wrangler.toml', import.meta.url), 'utf8');
    expect(/^head_sampling_rate = (.*)$/m.exec(wrangler)?.[1]).toBe('1');
  });
});
