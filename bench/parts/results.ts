// What a benchmark found, and how it is shown. Judges against targets; measures nothing.
import { median } from './statistics.ts';

export type Target = { atLeast: number } | { atMost: number };

export type Measure = { name: string; unit: string; perRound: number[]; target?: Target };

export type BenchResult = {
  name: string;
  title: string;
  /** How the figures were measured, for later readers. */
  settings: string[];
  measures: Measure[];
  /** What must never happen: something lost, doubled, altered or overtaken. */
  failures: string[];
};

export type Judged = Measure & { median: number; min: number; max: number; isMet: boolean | null };

export function judge(measure: Measure): Judged {
  const { perRound, target } = measure;
  const middle = median(perRound);
  const isMet = target === undefined ? null : 'atLeast' in target ? middle >= target.atLeast : middle <= target.atMost;
  return { ...measure, median: middle, min: Math.min(...perRound), max: Math.max(...perRound), isMet };
}

export function printResult({ name, title, settings, measures, failures }: BenchResult): void {
  console.log(`\n${name}  ${title}`);
  for (const setting of settings) console.log(`    ${setting}`);
  const rows = measures.map((measure) => {
    const { median: middle, min, max, target, isMet } = judge(measure);
    const wanted = target === undefined ? '' : 'atLeast' in target ? `>= ${target.atLeast}` : `<= ${target.atMost}`;
    const verdict = isMet === null ? '' : isMet ? 'met' : 'MISSED';
    const range = `${format(min)} - ${format(max)}`;
    return [measure.name, format(middle), measure.unit, range, wanted, verdict];
  });
  printTable([['', 'median', '', 'min - max', 'target', ''], ...rows]);
  for (const failure of failures) console.log(`  FAILED  ${failure}`);
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
