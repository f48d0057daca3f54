// What a benchmark is, and the order of a comparison: all sides in every round, each going first in turn, because the second
// side finds the machine warmer, or busier. Measures nothing.
import type { BenchResult, Measure } from './results.ts';

export type Benchmark = {
  name: string;
  /** What --variant may name. */
  variants: readonly string[];
  measure: (options: BenchOptions) => Promise<BenchResult>;
};

/** What `npm run bench` was asked for. */
export type BenchOptions = {
  rounds: number;
  /** One short round of each, which judges no target. */
  isQuick: boolean;
  /** One variant alone. */
  variant: string | null;
  /** Devices of the largest database of B5. */
  scale: number;
  say: (line: string) => void;
  /** Stops a part when the benchmark ends, in any case. */
  keep: <Part extends { stop: () => Promise<unknown> }>(starting: Part | Promise<Part>) => Promise<Part>;
};

/** Rounds of each side that are not counted, until the engines have compiled the hot code. */
const warmUpRounds = 2;

/** Runs all sides in turn. Resolves with a value of each side for each round that counts. */
export async function compareSides<Side extends string, Value>(
  label: string,
  sides: readonly Side[],
  { rounds, isQuick, say }: BenchOptions,
  run: (side: Side) => Promise<Value>,
  show: (value: Value) => string,
): Promise<Record<Side, Value[]>> {
  const values = Object.fromEntries(sides.map((side) => [side, []])) as unknown as Record<Side, Value[]>;
  for (let round = isQuick ? 0 : -warmUpRounds; round < rounds; round += 1) {
    const first = Math.abs(round) % sides.length;
    const shown: string[] = [];
    for (const side of [...sides.slice(first), ...sides.slice(0, first)]) {
      const value = await run(side);
      shown.push(`${side} ${show(value)}`);
      if (round >= 0) values[side].push(value);
    }
    if (round >= 0) say(`${label}, round ${round + 1}: ${shown.join(', ')}`);
  }
  return values;
}

/** One value a round. */
export function ratiosOf(values: readonly number[], against: readonly number[]): number[] {
  return values.map((value, round) => value / (against[round] ?? Number.NaN));
}

/** What each side reached by itself. */
export function measuresOf(sides: Record<string, number[]>, unit: string): Measure[] {
  return Object.entries(sides).map(([side, perRound]) => ({ name: `  ${side}`, unit, perRound }));
}

export const perSecondText = (perSecond: number): string => `${Math.round(perSecond)}/s`;
