// When a bystander was slowed down too much, and what several runs of one attack say together. Pure; measures nothing.
import { median, percentile } from '../../../bench/parts/statistics.ts';
import type { Result } from './attack.ts';
import { kinds, type Kind, type Measured } from './bystander.ts';

/** p95 in milliseconds, in quiet periods and under attack: the medians of the rounds. */
type Slowing = { before: number; meanwhile: number };

export type Outcome = Result & {
  name: string;
  runs: number;
  seconds: number;
  /** How much of one core the attack itself took, which on one machine the service lacks. */
  attackerCpu: number;
  bystander: Record<Kind, Slowing>;
  bystanderFailures: string[];
  /** The share of the bystander's time without a free processor. It is not in the bystander's figures. */
  waitedShare: number;
};

/** What a bystander's p95 may become, in milliseconds: a flood fills the one thread that a local Worker has. */
const unnoticedMs = 100;
/** The same beside password hashes, of which each keeps that thread for 110 ms, and new devices, each with a database. */
export const besideHeavyWorkMs = 250;

/** A slowed bystander counts if it is slow in the median of this many runs. */
export const runsOfSlowing = 3;

export function findSlowed(bystander: Outcome['bystander'], limitMs = unnoticedMs): string[] {
  return Object.entries(bystander)
    .filter(([, { meanwhile }]) => meanwhile > limitMs)
    .map(([kind, { before, meanwhile }]) => `${kind} p95 from ${before.toFixed(1)} to ${meanwhile.toFixed(1)} ms`);
}

/** Medians over the rounds of each round's p95. */
export function compareRounds(quiet: readonly Measured[], attacked: readonly Measured[]): Outcome['bystander'] {
  const of = (rounds: readonly Measured[], kind: Kind): number => {
    const measured = rounds.map(({ times }) => times[kind]).filter((times) => times.length > 0);
    return median(measured.map((times) => percentile(times, 95)));
  };
  return forEachKind((kind) => ({ before: of(quiet, kind), meanwhile: of(attacked, kind) }));
}

/** The medians of the bystander in several runs of one attack, and everything that failed in any run. */
export function joinRuns(runs: readonly [Outcome, ...Outcome[]]): Outcome {
  const seconds = sum(runs.map((run) => run.seconds));
  return {
    ...runs[0],
    ...sumResults(runs),
    runs: runs.length,
    seconds,
    attackerCpu: sum(runs.map((run) => run.attackerCpu * run.seconds)) / seconds,
    bystander: forEachKind((kind) => ({
      before: median(runs.map(({ bystander }) => bystander[kind].before)),
      meanwhile: median(runs.map(({ bystander }) => bystander[kind].meanwhile)),
    })),
    bystanderFailures: [...new Set(runs.flatMap((run) => run.bystanderFailures))],
    waitedShare: median(runs.map((run) => run.waitedShare)),
  };
}

export function sumResults(results: readonly Result[]): Result {
  const answers = new Map<string, number>();
  for (const [answer, count] of results.flatMap((result) => Object.entries(result.answers))) {
    answers.set(answer, (answers.get(answer) ?? 0) + count);
  }
  return {
    tried: sum(results.map(({ tried }) => tried)),
    answers: Object.fromEntries([...answers].toSorted(([, count], [, next]) => next - count)),
    problems: [...new Set(results.flatMap(({ problems }) => problems))],
  };
}

function forEachKind<T>(of: (kind: Kind) => T): Record<Kind, T> {
  return Object.fromEntries(kinds.map((kind) => [kind, of(kind)])) as Record<Kind, T>;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
