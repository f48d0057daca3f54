// A part of the tab with a chart: what it shows is chosen, read, drawn, and saved as CSV.
import type { ComponentChildren } from 'preact';
import { Action, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { usageTexts as words } from '../texts/usage.ts';
import { Chart, type ChartProps } from './chart.tsx';

type Props<Value> = {
  title: string;
  choice: ComponentChildren;
  read: () => Promise<Value>;
  /** Another one has it read again. */
  version: string;
  /** null: there is nothing to show. */
  chartOf: (value: Value) => ChartProps | null;
  onDownload?: () => Promise<void>;
};

export function Part<Value extends object>({ title, choice, read, version, chartOf, onDownload }: Props<Value>) {
  const { value, problem } = useRead(read, undefined, version);
  const chart = value.value && chartOf(value.value);
  return (
    <section class="card" aria-label={title}>
      <div class="bar">
        <h2>{title}</h2>
        {choice}
      </div>
      <Problem text={problem} />
      {value.value !== null && chart !== null && <Chart source={value.value} {...chart} />}
      {onDownload && <Action label={words.download} name={words.of(title, words.download)} onPress={onDownload} />}
    </section>
  );
}
