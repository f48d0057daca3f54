// The charts and the comparison of `npm run bench`, from results that are made up.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { drawCharts } from '../../../bench/parts/charts.ts';
import { describeChanges, mergeDocuments, readDocument } from '../../../bench/parts/documents.ts';
import type { BenchResult, Measure } from '../../../bench/parts/results.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const origin = { date: '2026-11-22T08:00:00Z', commit: 'abc', cores: 2, cpu: 'CPU <fast>' };
const machine = { ...origin, memoryGiB: 1, system: '', versions: {}, loadAverageBefore: [] };

function result(name: string, ...measures: Measure[]): BenchResult {
  return { name, title: '', settings: [], measures, failures: [] };
}

const requests = (ratio: number): BenchResult =>
  result(
    'B1',
    { name: 'status view', unit: 'x bare', perRound: [ratio, ratio + 0.01], target: { atLeast: 0.75 } },
    { name: '  service, p50', unit: 'ms', perRound: [3] },
  );

const growth = result(
  'B5',
  { name: 'first page', unit: 'x the time', perRound: [1.5], target: { atMost: 2 } },
  { name: '  1 000 devices', unit: 'ms/request', perRound: [2] },
  { name: '  1 000 000 devices', unit: 'ms/request', perRound: [3] },
);

const cost = result(
  'B6',
  { name: 'edge', unit: 'USD/month', perRound: [0.012], target: { atMost: 0.01 } },
  { name: '  object rows', unit: 'USD/month', perRound: [0.012] },
);

it('draws what the results hold: ratios, latencies, growth and cost', () => {
  const files = drawCharts(makeTempDir('charts'), [requests(0.5), growth, cost], origin);
  const [ratios = '', latency = '', grown = '', costs = ''] = files.map((file) => readFileSync(file, 'utf8'));
  expect(ratios).toContain('status view (x bare)');
  expect(ratios).toContain('0.51  missed');
  expect(latency).toContain('status view, service, p50');
  expect(grown).toContain('1 000 000');
  expect(costs).toContain('0.0120 USD');
  for (const svg of [ratios, latency, grown, costs]) {
    expect(svg).toContain('prefers-color-scheme: dark');
    expect(svg).toContain('CPU &lt;fast&gt;');
    expect(svg).not.toContain('NaN');
  }
});

it('leaves out a chart that the results hold nothing for', () => {
  const files = drawCharts(makeTempDir('charts'), [cost], origin);
  expect(files.map((file) => file.split('/').at(-1))).toEqual(['bench-cost.svg']);
});

it('shows what has changed since another run, and what only moved within its rounds', () => {
  const before = { machine, results: [requests(0.5), cost] };
  const lines = describeChanges(before, [requests(0.8), cost]);
  expect(lines.find((line) => line.includes('status view: '))).toMatch(/0\.505 -> 0\.805 x bare {2}\+59 %$/);
  expect(lines.find((line) => line.includes('edge: 0.012'))).toContain('within the rounds');
});

it('puts the benchmarks of several runs together, and refuses a file that is none of them', () => {
  const merged = mergeDocuments([
    { machine, results: [cost, requests(0.5)] },
    { machine, results: [requests(0.9)] },
  ]);
  expect(merged.results.map(({ name }) => name)).toEqual(['B1', 'B6']);
  expect(merged.results[0]?.measures[0]?.perRound[0]).toBe(0.9);
  const file = join(makeTempDir('bench'), 'other.json');
  writeFileSync(file, '{}');
  expect(() => readDocument(file)).toThrow('not written by npm run bench');
});
