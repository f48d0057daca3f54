// The charts of a run: ratios with their targets, latencies, growth of the database, cost by profile. Draws what the results
// hold, and leaves a chart out that they hold nothing for.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { judge, type BenchResult, type Judged } from './results.ts';
import { bar, chart, line, path, text, ticksTo, type Shape } from './svg.ts';

type Origin = { date: string; commit: string; cores: number; cpu: string };

const width = 860;
const top = 76;
const rowHeight = 26;
const barHeight = 14;
const labelWidth = 330;
const rightWidth = 120;
const plotWidth = width - labelWidth - rightWidth;

/** @returns the files it has written */
export function drawCharts(dir: string, results: readonly BenchResult[], origin: Origin): string[] {
  const caption = `${origin.date.slice(0, 10)}, commit ${origin.commit}, ${origin.cores} x ${origin.cpu}`;
  const drawn: Record<string, string | undefined> = {
    'bench-ratios.svg': drawRatios(results, caption),
    'bench-latency.svg': drawLatencies(results, caption),
    'bench-growth.svg': drawGrowth(results, caption),
    'bench-cost.svg': drawCost(results, caption),
  };
  mkdirSync(dir, { recursive: true });
  return Object.entries(drawn).flatMap(([name, svg]) => {
    if (svg === undefined) return [];
    writeFileSync(join(dir, name), svg);
    return [join(dir, name)];
  });
}

function drawRatios(results: readonly BenchResult[], caption: string): string | undefined {
  const rows = results.flatMap(({ name, measures }) =>
    measures
      .map(judge)
      .filter(({ target, unit }) => target !== undefined && 'atLeast' in target && unit.startsWith('x '))
      .map((judged) => ({ label: `${name}  ${judged.name} (${judged.unit})`, judged })),
  );
  if (rows.length === 0) return undefined;
  const max = 1.05 * Math.max(...rows.map(({ judged }) => Math.max(judged.max, targetOf(judged))));
  const title = 'Share of what is possible: bar median, thin line lowest and highest round, mark target';
  return drawBars(
    title,
    caption,
    max,
    (value) => value.toFixed(2),
    rows.map(({ label, judged }) => ({
      label,
      parts: [{ value: judged.median, classes: judged.isMet === false ? 'c1' : 'c0' }],
      shown: `${judged.median.toFixed(2)}${judged.isMet === false ? '  missed' : ''}`,
      range: [judged.min, judged.max],
      target: targetOf(judged),
    })),
  );
}

function drawLatencies(results: readonly BenchResult[], caption: string): string | undefined {
  const rows = results.flatMap(({ name, measures }) => {
    let path = '';
    return measures.map(judge).flatMap((judged) => {
      if (!judged.name.startsWith(' ')) path = judged.name;
      if (!/p(50|99)$/.test(judged.name) || judged.unit !== 'ms') return [];
      const own = judged.name.startsWith(' ') ? `${path.replace(/, p\d+$/, '')}, ${judged.name.trim()}` : judged.name;
      return [{ label: `${name}  ${own}`, judged }];
    });
  });
  if (rows.length === 0) return undefined;
  const max = 1.05 * Math.max(...rows.map(({ judged }) => Math.max(judged.median, targetOf(judged))));
  return drawBars(
    'Time of a request or command in ms: median and 99 of 100',
    caption,
    max,
    (value) => String(value),
    rows.map(({ label, judged }) => ({
      label,
      parts: [{ value: judged.median, classes: label.endsWith('p50') ? 'c0' : 'c5' }],
      shown: `${judged.median.toFixed(judged.median < 10 ? 1 : 0)} ms`,
      range: [judged.min, Math.min(judged.max, max)],
      target: targetOf(judged),
    })),
  );
}

const costParts = [
  ['requests', 'Worker', 'c0'],
  ['object requests, cost', 'object requests', 'c2'],
  ['duration', 'object duration', 'c3'],
  ['object rows', 'object rows', 'c1'],
  ['D1 rows', 'D1 rows', 'c4'],
] as const;

function drawCost(results: readonly BenchResult[], caption: string): string | undefined {
  const measures = (results.find(({ name }) => name === 'B6')?.measures ?? []).map(judge);
  const totals = measures.filter(({ name }) => !name.startsWith(' '));
  if (totals.length === 0) return undefined;
  const rows = totals.map((total) => {
    const begin = measures.indexOf(total) + 1;
    const end = measures.findIndex((one, index) => index >= begin && !one.name.startsWith(' '));
    const own = measures.slice(begin, end < 0 ? measures.length : end);
    const valueOf = (part: string) =>
      own.find(({ name, unit }) => name.trim() === part && unit.startsWith('USD'))?.median ?? 0;
    return {
      label: total.name,
      parts: costParts.map(([part, , classes]) => ({ value: valueOf(part), classes })),
      shown: `${total.median.toFixed(4)} USD`,
      target: targetOf(total),
    };
  });
  const max = 1.05 * Math.max(...totals.map((total) => Math.max(total.median, targetOf(total))));
  const legend = costParts.map(([, label, classes]) => ({ label, classes }));
  const title = 'Cost of a device in a month at one report a minute, list prices';
  return drawBars(title, caption, max, (value) => `$${value}`, rows, legend);
}

type Row = {
  label: string;
  parts: { value: number; classes: string }[];
  shown: string;
  range?: [number, number];
  /** 0: none. */
  target: number;
};

function drawBars(
  title: string,
  caption: string,
  max: number,
  format: (value: number) => string,
  rows: readonly Row[],
  legend: readonly { label: string; classes: string }[] = [],
): string {
  const at = (value: number): number => labelWidth + (value / max) * plotWidth;
  const bottom = top + rows.length * rowHeight;
  const shapes: Shape[] = ticksTo(max).flatMap((tick) => [
    line(at(tick), top - 6, at(tick), bottom),
    text(at(tick), bottom + 16, format(tick), 'soft', 'middle'),
  ]);
  for (const [index, { label, parts, shown, range, target }] of rows.entries()) {
    const y = top + index * rowHeight;
    shapes.push(text(labelWidth - 10, y + 12, label, 'text', 'end'));
    let sum = 0;
    for (const { value, classes } of parts) {
      shapes.push(bar(at(sum), y, at(sum + value) - at(sum), barHeight, classes));
      sum += value;
    }
    if (range !== undefined)
      shapes.push(line(at(range[0]), y + barHeight / 2, at(range[1]), y + barHeight / 2, 'range'));
    if (target > 0) shapes.push(line(at(target), y - 4, at(target), y + barHeight + 4, 'target'));
    shapes.push(text(at(Math.max(sum, range?.[1] ?? 0, target)) + 8, y + 12, shown, 'soft'));
  }
  let x = labelWidth;
  for (const { label, classes } of legend) {
    shapes.push(bar(x, bottom + 28, 12, 12, classes), text(x + 17, bottom + 39, label, 'soft'));
    x += 17 + label.length * 7 + 14;
  }
  return chart({ width, height: bottom + (legend.length > 0 ? 54 : 30) }, { title, caption }, shapes);
}

/** Each request of B5 is a line over the sizes. */
function drawGrowth(results: readonly BenchResult[], caption: string): string | undefined {
  const measures = (results.find(({ name }) => name === 'B5')?.measures ?? []).map(judge);
  const series: { name: string; points: { size: number; ms: number }[] }[] = [];
  for (const { name, median } of measures) {
    if (!name.startsWith(' ')) series.push({ name, points: [] });
    else series.at(-1)?.points.push({ size: Number(name.replaceAll(/\D/g, '')), ms: median });
  }
  const sizes = series[0]?.points.map(({ size }) => size) ?? [];
  const [smallest = 1, largest = 1] = [sizes[0], sizes.at(-1)];
  if (largest <= smallest) return undefined;
  const max = 1.1 * Math.max(...series.flatMap(({ points }) => points.map(({ ms }) => ms)));
  const [left, plotHeight] = [60, 240];
  const right = width - 260;
  const bottom = top + plotHeight;
  const xOf = (size: number) => left + (Math.log(size / smallest) / Math.log(largest / smallest)) * (right - left);
  const yOf = (ms: number) => bottom - (ms / max) * plotHeight;
  const shapes: Shape[] = ticksTo(max).flatMap((tick) => [
    line(left, yOf(tick), right, yOf(tick)),
    text(left - 8, yOf(tick) + 4, String(tick), 'soft', 'end'),
  ]);
  for (const size of sizes) {
    shapes.push(text(xOf(size), bottom + 20, size.toLocaleString('en').replaceAll(',', ' '), 'soft', 'middle'));
  }
  for (const [index, { name, points }] of series.entries()) {
    const places = points.map(({ size, ms }) => ({ x: xOf(size), y: yOf(ms) }));
    shapes.push(path(places, `c${index % 6}`));
    const y = top + 10 + index * 22;
    shapes.push(bar(right + 24, y - 10, 12, 12, `c${index % 6}`), text(right + 42, y, name));
  }
  const title = 'Time of a request in ms, by the number of devices in the database';
  return chart({ width, height: bottom + 36 }, { title, caption }, shapes);
}

function targetOf({ target }: Judged): number {
  if (target === undefined) return 0;
  return 'atLeast' in target ? target.atLeast : target.atMost;
}
