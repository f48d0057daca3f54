// The parts of the tab with a chart: a day, the days of a month, and a number over time. Each is chosen, read, drawn, and told in words.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Action, Problem, Select } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { saveFile } from '../parts/save-file.ts';
import { session } from '../state/session.ts';
import { usageTexts as words } from '../texts/usage.ts';
import { Chart, type ChartProps } from './chart.tsx';
import { chartOfDay, chartOfMonth, chartOfNumber } from './charts.ts';
import { addDays, daysKept, monthWords, startOf } from './days.ts';

type PartProps = {
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
  const { usage } = session().api.devices[':deviceId'];
  const asked = { param: { deviceId }, query: { from, to, step: 'day' as const } };
  const months = new Set(Array.from({ length: daysKept }, (_, days) => addDays(today, -days).slice(0, 7)));
  return (
    <Part
      title={words.month}
      choice={
        <Select
          {...{ label: words.monthName, name: 'month', value: month.value }}
          options={[...months].map((one) => [one, monthWords(one)])}
          onChange={(chosen) => (month.value = chosen)}
        />
      }
      read={() => dataOf(usage.$get(asked))}
      version={`${month.value} ${version}`}
      chartOf={({ list }) => chartOfMonth(list, onDate)}
      csv={{ ask: () => usage.$get(asked, csv), name: `${deviceId}-${month.value}.csv` }}
    />
  );
}

const spans = { day: [1, 'quarter'], week: [7, 'hour'], month: [30, 'day'] } as const;
/** Of older days, hours are kept alone. */
const quarterDays = 30;

type NumberProps = Pick<PartProps, 'deviceId' | 'date' | 'today' | 'version'> & {
  zone: string;
  names: readonly string[];
};

export function NumberPart({ deviceId, date, today, version, zone, names }: NumberProps) {
  const property = useSignal(names[0] ?? '');
  const span = useSignal<keyof typeof spans>('day');
  const [days, usual] = spans[span.value];
  const step = usual === 'quarter' && date <= addDays(today, -quarterDays) ? 'hour' : usual;
  const from = addDays(date, 1 - days);
  const asked = { param: { deviceId }, query: { property: property.value, from, to: date, step } };
  const { history } = session().api.devices[':deviceId'];
  const choice = (
    <div class="pair">
      <Select
        {...{ label: words.property, name: 'property', value: property.value }}
        options={names.map((name) => [name, name])}
        onChange={(name) => (property.value = name)}
      />
      <Select
        {...{ label: words.span, name: 'span', value: span.value }}
        options={Object.entries(words.spans)}
        onChange={(name) => (span.value = name as keyof typeof spans)}
      />
    </div>
  );
  return (
    <Part
      {...{ title: words.numbers, choice }}
      read={() => dataOf(history.$get(asked))}
      version={[property.value, from, date, date === today && version].join(' ')}
      chartOf={(answer) => chartOfNumber(answer, step, startOf(from, zone), startOf(addDays(date, 1), zone))}
      csv={{ ask: () => history.$get(asked, csv), name: `${deviceId}-${property.value}-${from}.csv` }}
    />
  );
}

const csv = { headers: { Accept: 'text/csv' } };
type CsvAnswer = Pick<Response, 'ok' | 'headers' | 'status' | 'json' | 'blob'>;
type Props<Value> = {
  title: string;
  choice: ComponentChildren;
  read: () => Promise<Value>;
  /** Another one has it read again. */
  version: string;
  chartOf: (value: Value) => ChartProps | null;
  csv?: { ask: () => Promise<CsvAnswer>; name: string };
};

function Part<Value extends object>({ title, choice, read, version, chartOf, csv: file }: Props<Value>) {
  const { value, problem } = useRead(read, undefined, version);
  const chart = value.value && chartOf(value.value);
  const download = async ({ ask, name }: NonNullable<typeof file>): Promise<void> => {
    const answer = await ask();
    // It throws what the service said.
    if (!answer.ok) await dataOf(Promise.resolve(answer));
    saveFile(await answer.blob(), name);
  };
  return (
    <section class="card" aria-label={title}>
      <div class="bar">
        <h2>{title}</h2>
        {choice}
      </div>
      <Problem text={problem} />
      {value.value !== null && chart !== null && <Chart source={value.value} {...chart} />}
      {file && <Action label={words.download} name={words.of(title, words.download)} onPress={() => download(file)} />}
    </section>
  );
}
