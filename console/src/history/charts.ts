// What the service says of a device as charts: how they are drawn, and the same in words.
import type { Client, Data } from '@latchwork/client';
import uPlot from 'uplot';
import { usageTexts as words } from '../texts/usage.ts';
import type { ChartProps, Paint } from './chart.tsx';
import { addDays, dateWords, monthWords, startOf, timeWords } from './days.ts';

type DeviceApi = Client['devices'][':deviceId'];
type Usage = Data<DeviceApi['usage']['$get']>;
type History = Data<DeviceApi['history']['$get']>;
type Step = Usage['list'][number];
type Segment = { fromS: number; toS: number; value: keyof typeof words.values };

function sumsOf(steps: readonly Step[]): string {
  const sum = (of: (step: Step) => number) => steps.reduce((total, step) => total + of(step), 0);
  const counts = Object.entries(words.causes).map(([cause, text]) => {
    return { text, count: sum(({ presses }) => presses[cause as keyof typeof presses]) };
  });
  return [
    words.sums(
      sum((step) => step.onSeconds),
      sum((step) => step.offSeconds),
      sum((step) => step.unknownSeconds),
    ),
    words.presses(counts.filter(({ count }) => count > 0)),
    words.failures(sum(({ failures }) => failures)),
  ].join('');
}

export function chartOfDay({ list: [step], timeline }: Usage): ChartProps | null {
  if (step === undefined) return null;
  const { zone, seconds } = step;
  const [startS, endS] = [startOf(step.from, zone), startOf(addDays(step.from, 1), zone)];
  const changes: [number, Segment['value']][] = [[0, 'unknown'], ...(timeline?.changes ?? []), [seconds, 'unknown']];
  const segments = changes.slice(0, -1).flatMap(([second, value], index): Segment[] => {
    const until = changes[index + 1]?.[0] ?? second;
    // What took less than a second is shown, too.
    return until > second || value !== 'unknown' ? [{ fromS: startS + second, toS: startS + until, value }] : [];
  });
  const time = (atS: number) => timeWords(atS * 1000, { timeStyle: 'medium' }, zone);
  return {
    ...{ zone, height: 110, axis: null, title: dateWords(step.from), legend: words.values },
    data: [segments.map(({ fromS }) => fromS), segments.map(() => 1)],
    draw: (paint) => ({
      series: [{}, { paths: () => null, points: { show: false } }],
      scales: { x: { range: [startS, endS] }, y: { range: [0, 1] } },
      cursor: { dataIdx: (_, __, ___, atS) => segments.findIndex(({ fromS, toS }) => fromS <= atS && atS < toS) },
      hooks: { draw: [(plot) => drawSegments(plot, segments, paint)] },
    }),
    summary: sumsOf([step]) + (timeline?.isCut === true ? words.isCut : ''),
    facts: segments.map(({ fromS, toS, value }) => words.segment(time(fromS), time(toS), words.values[value])),
  };
}

/** Off is lower than the others: no colour alone tells them apart. */
function drawSegments(plot: uPlot, segments: readonly Segment[], paint: Paint): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { fromS, toS, value } of segments) {
    const [left, right] = [plot.valToPos(fromS, 'x', true), plot.valToPos(toS, 'x', true)];
    const height = bbox.height * (value === 'off' ? 0.2 : 1);
    ctx.fillStyle = paint[value];
    ctx.fillRect(left, bbox.top + bbox.height - height, Math.max(devicePixelRatio, right - left), height);
  }
  ctx.restore();
}

export function chartOfMonth(days: readonly Step[], onDate: (date: string) => void): ChartProps | null {
  const [first] = days;
  if (first === undefined) return null;
  const hours = (of: (day: Step) => number) => days.map((day) => of(day) / 3600);
  const { on, unknown } = words.values;
  const halfDay = 43_200;
  return {
    ...{ zone: 'UTC', height: 220, title: monthWords(first.from), legend: { on, unknown } },
    axis: { values: (_, values) => values.map(words.hours), incrs: [6], size: 46 },
    data: [
      days.map(({ from }) => Date.parse(from) / 1000),
      hours(({ onSeconds, unknownSeconds }) => onSeconds + unknownSeconds),
      hours(({ onSeconds }) => onSeconds),
    ],
    draw: (paint) => {
      const bars = {
        ...(uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [0.8, 40] }) }),
        points: { show: false },
      };
      return {
        series: [{}, { ...bars, fill: () => paint.unknown, stroke: paint.off, width: 1 }, { ...bars, fill: paint.on }],
        scales: { x: { range: (_, min, max) => [min - halfDay, max + halfDay] }, y: { range: [0, 24] } },
      };
    },
    summary: sumsOf(days),
    facts: days.map((day) => words.of(dateWords(day.from), sumsOf([day]))),
    onPick: (index) => onDate(days[index]?.from ?? first.from),
  };
}

const secondsOf = { quarter: 900, hour: 3600, day: 86_400 };

/** @param startS where it begins, and `endS` where it ends, in seconds since 1970 */
export function chartOfNumber(
  { property, zone, list }: History,
  step: keyof typeof secondsOf,
  startS: number,
  endS: number,
): ChartProps {
  const times = list.map(({ at }) => Date.parse(at) / 1000);
  const places = [...times.keys()];
  const isLast = (place: number) => (times[place + 1] ?? Infinity) - (times[place] ?? 0) > secondsOf[step] * 1.5;
  // Where nothing was reported for a step, the line ends.
  const gaps = (plot: uPlot) =>
    places.filter(isLast).map((place): [number, number] => {
      const [fromS = endS, toS = endS] = times.slice(place);
      return [plot.valToPos(fromS, 'x', true), plot.valToPos(toS, 'x', true)];
    });
  const alone = places.filter((place) => isLast(place) && (place === 0 || isLast(place - 1)));
  const column = (name: 'least' | 'mean' | 'greatest') => list.map((point) => point[name]);
  const count = list.reduce((sum, point) => sum + point.count, 0);
  const mean = list.reduce((sum, point) => sum + point.mean * point.count, 0) / count;
  const range = words.range(Math.min(...column('least')), Math.max(...column('greatest')), mean, count);
  const edge = { points: { show: false }, gaps };
  return {
    ...{ zone, height: 220, axis: { size: 60 }, title: property, legend: words.numberParts },
    data: [times, column('mean'), column('greatest'), column('least')],
    draw: ({ on }) => ({
      series: [
        {},
        { stroke: on, width: 2, gaps, points: { show: true, size: 5, fill: on, filter: () => alone } },
        edge,
        edge,
      ],
      bands: [{ series: [2, 3], fill: `${on}40` }],
      scales: { x: { range: [startS, endS] } },
    }),
    summary: count === 0 ? words.noPoints : range,
    facts: list.map((point) => {
      const time = timeWords(point.at, { dateStyle: 'medium', timeStyle: 'short' }, zone);
      return words.of(time, words.range(point.least, point.greatest, point.mean, point.count));
    }),
  };
}
