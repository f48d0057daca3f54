// What a benchmark found, and how it is shown. Judges against targets; measures nothing.
import { median } from './statistics.ts';

type Target = { atLeast: number } | { atMost: number };

export type Measure = { name: string; unit: string; perRound: number[]; target?: Target };

export type BenchResult = {
  title: string;
  /** How the figures were measured, for later readers. */
  settings: string[];
  measures: Measure[];
  /** What must never happen: something lost, doubled, altered or overtaken. */
  failures: string[];
};

export function printResult(name: string, result: BenchResult, { isQuick }: { isQuick: boolean }): void {
  console.log(`\n${name}  ${result.title}`);
  for (const setting of result.settings) console.log(`    ${setting}`);
  const rows = result.measures.map(({ name: measure, unit, perRound, target }) => {
    const middle = median(perRound);
    const range = `${format(Math.min(...perRound))} - ${format(Math.max(...perRound))}`;
    const verdict = target === undefined || isQuick ? [] : judge(middle, target);
    return [measure, format(middle), unit, range, ...verdict];
  });
  printTable([['', 'median', '', 'min - max', 'target', ''], ...rows]);
  for (const failure of result.failures) console.log(`  FAILED  ${failure}`);
}

function judge(middle: number, target: Target): string[] {
  const [wanted, isMet] =
    'atLeast' in target
      ? [`>= ${target.atLeast}`, middle >= target.atLeast]
      : [`<= ${target.atMost}`, middle <= target.atMost];
  return [wanted, isMet ? 'met' : 'MISSED'];
}

function printTable(rows: string[][]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of rows) {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 1 ? cell.padStart(width) : cell.padEnd(width);
    });
    console.log(`  ${cells.join('  ').trimEnd()}`);
  }
}

function format(value: number): string {
  if (value >= 1000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ' ');
  if (value >= 100) return value.toFixed(0);
  return value >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(2);
}
