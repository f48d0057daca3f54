// How much a device may send, by the clock: no more than burst and rate allow, no less, and more after an absence.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDeviceRates } from '../../../broker-bridge/src/intake/flood-gate.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';

const startMs = 1_790_000_000_000;

/** How many of `tries` messages at one moment are admitted. */
function send(rates: ReturnType<typeof createDeviceRates>, device: string, tries: number, nowMs: number): number {
  let admitted = 0;
  for (let n = 0; n < tries; n += 1) if (rates.take(device, nowMs)) admitted += 1;
  return admitted;
}

describe('a device', () => {
  it('may send a burst, and then as many as its rate allows', () => {
    const rates = createDeviceRates({ messagesPerSecond: 10, burst: 30 });
    expect(send(rates, 'd1', 100, startMs)).toBe(30);
    expect(rates.waitMs('d1', startMs)).toBe(100);
    expect(send(rates, 'd1', 100, startMs + 1000)).toBe(10);
    expect(send(rates, 'd1', 100, startMs + 3_600_000)).toBe(30);
  });

  it('may send at once what it could have sent while nobody read, for so long, and an hour of it at most', () => {
    const rates = createDeviceRates({ messagesPerSecond: 10, burst: 30 });
    rates.noteAbsence(60_000, startMs);
    expect(send(rates, 'd1', 10_000, startMs)).toBe(30 + 600);
    expect(send(rates, 'd2', 10_000, startMs + 30_000)).toBe(30 + 300);
    expect(send(rates, 'd3', 10_000, startMs + 60_000)).toBe(30);
    rates.noteAbsence(24 * 3_600_000, startMs + 60_000);
    expect(send(rates, 'd4', 100_000, startMs + 60_000)).toBe(30 + 36_000);
  });

  it('never gets more than burst and rate allow, however its messages are spread', () => {
    const tries = fc.array(fc.tuple(fc.nat(2000), fc.nat(50)), { maxLength: 60 });
    fc.assert(
      fc.property(tries, fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 100 }), (steps, rate, burst) => {
        const rates = createDeviceRates({ messagesPerSecond: rate, burst });
        let [nowMs, admitted] = [startMs, 0];
        for (const [waitMs, count] of steps) {
          nowMs += waitMs;
          admitted += send(rates, 'd1', count, nowMs);
          expect(admitted).toBeLessThanOrEqual(burst + (rate * (nowMs - startMs)) / 1000 + 0.01);
          if (admitted < count) expect(rates.waitMs('d1', nowMs)).toBeLessThanOrEqual(1000 / rate + 0.01);
        }
      }),
      { seed: fuzzSeed },
    );
  });
});
