// The outcome of a run as RESULTS.md shows it. Measures nothing.
import type { Outcome } from './judgement.ts';

export type Judged = { outcome: Outcome; failures: string[] };

export function tableOf(judged: readonly Judged[]): string {
  const rows = judged.map(({ outcome, failures }) => {
    const slowest = Object.entries(outcome.bystander).toSorted(([, a], [, b]) => b.meanwhile - a.meanwhile)[0];
    const [kind, p95] = slowest ?? ['', { before: 0, meanwhile: 0 }];
    const runs = outcome.runs === 1 ? '' : `, ${outcome.runs} runs`;
    const cells = [
      outcome.name,
      `${failures.length === 0 ? 'held' : 'DID NOT HOLD'}${runs}`,
      `${kind} ${p95.before.toFixed(1)}→${p95.meanwhile.toFixed(1)}`,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| attack | outcome | bystander p95, ms |', '| --- | --- | --- |', ...rows].join('\n');
}
