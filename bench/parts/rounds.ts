// The order of a comparison: all sides in every round, each going first in turn, because the second side finds the machine
// warmer, or busier. Measures nothing.

export type Say = (line: string) => void;

/** What `npm run bench` was asked for. */
export type BenchOptions = {
  rounds: number;
  /** One short round of each, which judges no target. */
  isQuick: boolean;
  /** One variant alone. */
  variant: string | null;
  /** Devices of the largest database of B5. */
  scale: number;
  say: Say;
};

export async function takeTurns<Side extends string>(
  sides: readonly Side[],
  round: number,
  run: (side: Side) => Promise<void>,
): Promise<void> {
  for (const index of sides.keys()) {
    const side = sides[(index + round) % sides.length];
    if (side !== undefined) await run(side);
  }
}

/** One value a round. */
export function ratiosOf(values: readonly number[], against: readonly number[]): number[] {
  return values.map((value, round) => value / (against[round] ?? Number.NaN));
}
