// The verdict on a run, its outcome as RESULTS.md shows it, and writing it there. Measures nothing.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import prettier from 'prettier';
import { slowing, type Outcome } from './judgement.ts';
import type { LongOutcome } from '../long-run.ts';

const page = fileURLToPath(new URL('../RESULTS.md', import.meta.url));

export type Found = { outcome: Outcome; failures: string[] };

export function verdictOf(
  found: readonly Pick<Found, 'failures'>[],
  long: Pick<LongOutcome, 'problems'> | undefined,
): { hasHeld: boolean; text: string } {
  const failed = found.filter(({ failures }) => failures.length > 0).length;
  const failures = [
    ...(failed > 0 ? [`${failed} of ${found.length} attacks did not hold`] : []),
    ...(long !== undefined && long.problems.length > 0 ? ['generated input was answered wrongly'] : []),
  ];
  const hasHeld = failures.length === 0;
  return { hasHeld, text: hasHeld ? 'Everything held' : failures.join(', and ') };
}

export function tableOf(found: readonly Found[]): string {
  const rows = found.map(({ outcome, failures }) => {
    const worst = Object.entries(outcome.bystander).toSorted(([, one], [, other]) => slowing(other) - slowing(one))[0];
    const [kind, p95] = worst ?? ['', { before: 0, meanwhile: 0 }];
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

export function describeLong({ sent, seconds, answers, operations, problems }: LongOutcome): string {
  const counted = Object.entries(answers).map(([answer, count]) => `${answer}: ${count}`);
  const held =
    problems.length === 0 ? 'every answer is what the reference says' : `DID NOT HOLD: ${problems.join('; ')}`;
  const { requests, machines, messages } = sent;
  return `Generated input, with relaxed limits: ${requests} requests over ${operations} operations, ${machines} to hooks and the bridge's routes, ${messages} messages of devices, in ${(seconds / 60).toFixed(1)} minutes (${counted.join(', ')}); ${held}.`;
}

/** Replaces what stands between the two marks of a part. */
export async function writeToPage(part: 'attacks' | 'long run', text: string): Promise<void> {
  const [begin, end] = [`<!-- ${part}: begin -->`, `<!-- ${part}: end -->`];
  const old = readFileSync(page, 'utf8');
  const [from, to] = [old.indexOf(begin), old.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`RESULTS.md lacks ${begin} or ${end}`);
  const changed = `${old.slice(0, from + begin.length)}\n\n${text}\n\n${old.slice(to)}`;
  const options = await prettier.resolveConfig(page);
  writeFileSync(page, await prettier.format(changed, { ...options, filepath: page }));
}
