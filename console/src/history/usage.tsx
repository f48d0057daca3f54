// How long a device was on, off and not known: on one day, and on the days of a month. With what pressed it.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import uPlot from 'uplot';
import { asCsv, saveAnswer } from '../parts/save-file.ts';
import { session } from '../state/session.ts';
import { usageTexts as words } from '../texts/usage.ts';
import type { ChartProps, Paint } from './chart.tsx';
import { addDays, dateWords, startOf, timeWords } from './days.ts';
import { Part } from './part.tsx';

type Usage = Data<Client['devices'][':deviceId']['usage']['$get']>;
type Step = Usage['list'][number];
type Segment = { fromS: number; toS: number; value: keyof typeof words.values };
export type PartProps = {
  deviceId: string;
  /** The chosen day. */
  date: string;
  onDate: (date: string) => void;
  /** The first day that is kept. */
  first: string;
  today: string;
  /** Changes when the device does. */
  version: string;
};

export function DayPart({ deviceId, date, onDate, first, today, version }: PartProps) {
  const { usage } = session().api.devices[':deviceId'];
  const query = { from: date, to: date, step: 'day' as const };
  const isKept = (day: string) => day >= first && day <= today;
  const beside = (label: string, sign: string, day: string) => (
    <button type="button" aria-label={label} disabled={!isKept(day)} onClick={() => onDate(day)}>
      {sign}
    </button>
  );
  const choice = (
    <div class="chosen-day">
      {beside(words.previous, '←', addDays(date, -1))}
      <input
        {...{ type: 'date', 'aria-label': words.day, value: date, min: first, max: today }}
        onInput={({ currentTarget: { value } }) => isKept(value) && onDate(value)}
      />
      {beside(words.next, '→', addDays(date, 1))}
    </div>
  );
  return (
    <Part
      {...{ title: words.day, choice, chartOf: chartOfDay }}
      read={() => dataOf(usage.$get({ param: { deviceId }, query }))}
      version={`${date} ${date === today && version}`}
    />
  );
}

export function MonthPart({ deviceId, onDate, first, today, version }: PartProps) {
  const month = useSignal(today.slice(0, 7));
  const firstDay = `${month.value}-01`;
  const from = firstDay < first ? first : firstDay;
  const to = addDays(`${addDays(firstDay, 31).slice(0, 7)}-01`, -1);
  const months = new Set(Array.from({ length: 400 }, (_, days) => addDays(today, -days).slice(0, 7)));
  const { usage } = session().api.devices[':deviceId'];
  const asked = { param: { deviceId }, query: { from, to, step: 'day' as const } };
  const choice = (
    <select aria-label={words.month} onChange={({ currentTarget: { value } }) => (month.value = value)}>
      {[...months].map((one) => (
        <option key={one} value={one} selected={one === month.value}>
          {monthWords(one)}
        </option>
      ))}
    </select>
  );
  return (
    <Part
      {...{ title: words.month, choice }}
      read={() => dataOf(usage.$get(asked))}
      version={`${month.value} ${version}`}
      chartOf={({ list }) => chartOfMonth(list, onDate)}
      onDownload={() => saveAnswer(usage.$get(asked, asCsv), `${deviceId}-${month.value}.csv`)}
    />
  );
}

function monthWords(month: string): string {
  return timeWords(month, { month: 'long', year: 'numeric' });
}

function sumsOf(steps: readonly Step[]): string {
  const sum = (of: (step: Step) => number) => steps.reduce((total, step) => total + of(step), 0);
  const causes = Object.entries(words.causes).flatMap(([cause, text]) => {
    const count = sum(({ presses }) => presses[cause as keyof Step['presses']]);
    return count === 0 ? [] : words.cause(count, text);
  });
  return [
    words.sums(
      sum((step) => step.onSeconds),
      sum((step) => step.offSeconds),
      sum((step) => step.unknownSeconds),
    ),
    words.presses(sum(pressesOf), causes),
    words.failures(sum((step) => step.failures)),
  ].join(' ');
}

function pressesOf({ presses }: Step): number {
  return Object.values(presses).reduce((sum, count) => sum + count, 0);
}

function chartOfDay({ list: [step], timeline }: Usage): ChartProps | null {
  if (step === undefined) return null;
  const { zone, seconds } = step;
  const [startS, endS] = [startOf(step.from, zone), startOf(addDays(step.from, 1), zone)];
  const changes: [number, Segment['value']][] = [[0, 'unknown'], ...(timeline?.changes ?? []), [seconds, 'unknown']];
  const segments = changes.slice(0, -1).flatMap(([second, value], index): Segment[] => {
    const until = changes[index + 1]?.[0] ?? second;
    return until > second ? [{ fromS: startS + second, toS: startS + until, value }] : [];
  });
  const time = (atS: number) => timeWords(atS * 1000, { timeStyle: 'medium' }, zone);
  return {
    ...{ zone, height: 110, hasDates: false, axis: null, title: dateWords(step.from), legend: words.values },
    data: [segments.map(({ fromS }) => fromS), segments.map(() => 1)],
    draw: (paint) => ({
      series: [{}, { paths: () => null, points: { show: false } }],
      scales: { x: { range: [startS, endS] }, y: { range: [0, 1] } },
      cursor: { dataIdx: (_, __, ___, atS) => segments.findIndex(({ fromS, toS }) => fromS <= atS && atS < toS) },
      hooks: { draw: [(plot) => drawSegments(plot, segments, paint)] },
    }),
    summary: [sumsOf([step]), timeline?.isCut === true ? words.isCut : ''].join(' '),
    rows: segments.map(({ fromS, toS, value }) => [time(fromS), time(toS), words.values[value]]),
    columns: words.columns.changes,
  };
}

/** Off is lower than the others: no colour alone tells them apart. */
function drawSegments({ ctx, bbox, valToPos }: uPlot, segments: readonly Segment[], paint: Paint): void {
  ctx.save();
  for (const { fromS, toS, value } of segments) {
    const [left, right] = [valToPos(fromS, 'x', true), valToPos(toS, 'x', true)];
    const height = bbox.height * (value === 'off' ? 0.2 : 1);
    ctx.fillStyle = paint[value];
    ctx.fillRect(left, bbox.top + bbox.height - height, Math.max(devicePixelRatio, right - left), height);
  }
  ctx.restore();
}

function chartOfMonth(days: readonly Step[], onDate: (date: string) => void): ChartProps | null {
  const [first] = days;
  if (first === undefined) return null;
  const hours = (of: (day: Step) => number) => days.map((day) => of(day) / 3600);
  const { on, unknown } = words.values;
  return {
    ...{ zone: 'UTC', height: 220, hasDates: true, title: monthWords(first.from), legend: { on, unknown } },
    axis: { values: (_, values) => values.map(words.hours), incrs: [6], size: 46 },
    data: [
      days.map(({ from }) => Date.parse(from) / 1000),
      hours(({ onSeconds, unknownSeconds }) => onSeconds + unknownSeconds),
      hours(({ onSeconds }) => onSeconds),
    ],
    draw: (paint) => {
      const bars = { paths: uPlot.paths.bars!({ size: [0.8, 40] }), points: { show: false }, width: 1 };
      const halfDay = 43_200;
      return {
        series: [
          {},
          { ...bars, fill: () => paint.unknown, stroke: paint.soft },
          { ...bars, fill: paint.on, stroke: paint.on },
        ],
        scales: { x: { range: (_, min, max) => [min - halfDay, max + halfDay] }, y: { range: [0, 24] } },
      };
    },
    summary: sumsOf(days),
    rows: days.map((day) => [
      dateWords(day.from),
      ...[day.onSeconds, day.offSeconds, day.unknownSeconds].map(words.length),
      ...[pressesOf(day), day.failures].map(words.number),
    ]),
    columns: words.columns.days,
    onPick: (index) => onDate(days[index]?.from ?? first.from),
  };
}
