// The JSON that a run leaves (`--json`), and what has changed since another one (`--against`). Measures nothing.
import { readFileSync } from 'node:fs';
import { judge, type BenchResult, type Judged } from './results.ts';
import type { Machine } from './machine.ts';

export type BenchDocument = { machine: Machine; results: BenchResult[] };

/** @throws Error where it is none of ours */
export function readDocument(file: string): BenchDocument {
  const document = JSON.parse(readFileSync(file, 'utf8')) as Partial<BenchDocument>;
  if (!Array.isArray(document.results) || document.machine === undefined) {
    throw new Error(`${file} was not written by npm run bench -- --json`);
  }
  return document as BenchDocument;
}

/** A line for each measure that both have. A change within the rounds of both is none. */
export function describeChanges(before: BenchDocument, results: readonly BenchResult[]): string[] {
  const { machine } = before;
  const lines = [`\nAgainst ${machine.date}, commit ${machine.commit}, ${machine.cores} x ${machine.cpu}:`];
  for (const { name, measures } of results) {
    const old = listMeasures(before.results.find((one) => one.name === name)?.measures ?? []);
    for (const [key, now] of listMeasures(measures)) {
      const then = old.get(key);
      if (then === undefined || then.median === 0) continue;
      const isOutside = now.min > then.max || now.max < then.min;
      const percent = Math.round((now.median / then.median - 1) * 100);
      const change = isOutside ? `${percent >= 0 ? '+' : ''}${percent} %` : `(${percent} %, within the rounds)`;
      lines.push(`  ${name}  ${key}: ${short(then.median)} -> ${short(now.median)} ${now.unit}  ${change}`);
    }
  }
  return lines;
}

/** Parts have their variant in front of their name. */
function listMeasures(measures: BenchResult['measures']): Map<string, Judged> {
  const listed = new Map<string, Judged>();
  let variant = '';
  for (const measure of measures) {
    const isPart = measure.name.startsWith(' ');
    if (!isPart) variant = measure.name;
    listed.set(isPart ? `${variant}: ${measure.name.trim()}` : measure.name, judge(measure));
  }
  return listed;
}

function short(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
