// The outcome of a run as docs/security.md shows it, and writing it there. Measures nothing.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import prettier from 'prettier';
import type { Outcome } from './battlefield.ts';

const begin = '<!-- attacks: begin -->';
const end = '<!-- attacks: end -->';
const page = fileURLToPath(new URL('../../docs/security.md', import.meta.url));

export type Found = { outcome: Outcome; failures: string[] };

export function tableOf(found: readonly Found[]): string {
  const rows = found.map(({ outcome, failures }) => {
    const worst = Object.entries(outcome.bystander).toSorted(
      ([, one], [, other]) => other.meanwhile / other.before - one.meanwhile / one.before,
    )[0];
    const [kind, p95] = worst ?? ['', { before: 0, meanwhile: 0 }];
    const { before, peak } = outcome.memory.worker;
    const cells = [
      outcome.name,
      String(outcome.tried),
      failures.length === 0 ? 'held' : 'DID NOT HOLD',
      `${kind} ${p95.before.toFixed(1)} -> ${p95.meanwhile.toFixed(1)}`,
      outcome.attackerCpu.toFixed(2),
      `${before} -> ${peak}`,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    '| attack | tried | outcome | bystander p95, worst, ms | cores of the attacker | Worker MiB |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}

/** Replaces what stands between the two marks. */
export async function writeToPage(text: string): Promise<void> {
  const old = readFileSync(page, 'utf8');
  const [from, to] = [old.indexOf(begin), old.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/security.md lacks ${begin} or ${end}`);
  const changed = `${old.slice(0, from + begin.length)}\n\n${text}\n\n${old.slice(to)}`;
  const options = await prettier.resolveConfig(page);
  writeFileSync(page, await prettier.format(changed, { ...options, filepath: page }));
}
