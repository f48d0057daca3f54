// What the device reported of a number over time: a line, and the band from least to greatest.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import type uPlot from 'uplot';
import { Select } from '../parts/form.tsx';
import { asCsv, saveAnswer } from '../parts/save-file.ts';
import { session } from '../state/session.ts';
import { usageTexts as words } from '../texts/usage.ts';
import type { ChartProps } from './chart.tsx';
import { addDays, startOf, timeWords } from './days.ts';
import { Part } from './part.tsx';
import type { PartProps } from './usage.tsx';

type History = Data<Client['devices'][':deviceId']['history']['$get']>;
type Span = keyof typeof words.spans;

const spans = { day: [1, 'quarter'], week: [7, 'hour'], month: [30, 'day'] } as const;
const secondsOf = { quarter: 900, hour: 3600, day: 86_400 };
/** Of older days, hours are kept alone. */
const quarterDays = 30;

type Props = Omit<PartProps, 'onDate' | 'first'> & { zone: string; names: readonly string[] };

export function NumberPart({ deviceId, date, today, version, zone, names }: Props) {
  const chosen = useSignal(names[0] ?? '');
  const span = useSignal<Span>('day');
  const [days, usual] = spans[span.value];
  const step = usual === 'quarter' && date <= addDays(today, -quarterDays) ? 'hour' : usual;
  const from = addDays(date, 1 - days);
  const asked = { param: { deviceId }, query: { property: chosen.value, from, to: date, step } };
  const { history } = session().api.devices[':deviceId'];
  const choice = (
    <div class="pair">
      <Select
        {...{ label: words.property, name: 'property', value: chosen.value }}
        options={names.map((name) => [name, name])}
        onChange={(name) => (chosen.value = name)}
      />
      <Select
        {...{ label: words.span, name: 'span', value: span.value }}
        options={Object.entries(words.spans)}
        onChange={(name) => (span.value = name as Span)}
      />
    </div>
  );
  const frame = [startOf(from, zone), startOf(addDays(date, 1), zone)] as const;
  return (
    <Part
      {...{ title: words.numbers, choice }}
      read={() => dataOf(history.$get(asked))}
      version={[chosen.value, from, date, date === today && version].join(' ')}
      chartOf={(answer) => chartOf(answer, frame, secondsOf[step])}
      onDownload={() => saveAnswer(history.$get(asked, asCsv), `${deviceId}-${chosen.value}-${from}.csv`)}
    />
  );
}

function chartOf({ property, zone, list }: History, frame: readonly [number, number], stepS: number): ChartProps {
  const hasDates = stepS > secondsOf.quarter;
  const times = list.map(({ at }) => Date.parse(at) / 1000);
  // Where nothing was reported for a step, the line ends.
  const gaps = (plot: uPlot, _: number, first: number, last: number) =>
    times.slice(first, last).flatMap((atS, index): [number, number][] => {
      const nextS = times[first + index + 1] ?? atS;
      return nextS - atS > stepS * 1.5 ? [[plot.valToPos(atS, 'x', true), plot.valToPos(nextS, 'x', true)]] : [];
    });
  const column = (name: 'least' | 'mean' | 'greatest') => list.map((point) => point[name]);
  const count = list.reduce((sum, point) => sum + point.count, 0);
  const mean = list.reduce((sum, point) => sum + point.mean * point.count, 0) / count;
  const range = words.range(Math.min(...column('least')), mean, Math.max(...column('greatest')), count);
  return {
    ...{ zone, hasDates, height: 220, axis: { size: 60 }, title: property, legend: words.numberParts },
    data: [times, column('mean'), column('greatest'), column('least')],
    draw: ({ on }) => ({
      series: [
        {},
        { stroke: on, width: 2, gaps },
        { points: { show: false }, gaps },
        { points: { show: false }, gaps },
      ],
      bands: [{ series: [2, 3], fill: `${on}40` }],
      scales: { x: { range: [...frame] } },
    }),
    summary: count === 0 ? words.noPoints : range,
    rows: list.map((point) => [
      timeWords(point.at, { timeStyle: 'short', ...(hasDates && { dateStyle: 'medium' }) }, zone),
      ...[point.least, point.mean, point.greatest, point.last, point.count].map(words.number),
    ]),
    columns: words.columns.points,
  };
}
