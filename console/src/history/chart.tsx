// A chart on a canvas: in the colours of the page, as wide as its place, in the time of a zone. A canvas has no words, so a
// sentence and a table beside it say the same.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { usageTexts as words } from '../texts/usage.ts';

export type Paint = { on: string; off: string; unknown: string | CanvasPattern; soft: string };
export type ChartProps = {
  data: uPlot.AlignedData;
  draw: (paint: Paint) => Pick<uPlot.Options, 'series' | 'scales' | 'bands' | 'cursor' | 'hooks'>;
  zone: string;
  height: number;
  /** Its times are dates. */
  hasDates: boolean;
  /** null: no values beside it. */
  axis: uPlot.Axis | null;
  title: string;
  /** What all of it says. */
  summary: string;
  /** By the class of what it looks like. */
  legend: Readonly<Record<string, string>>;
  /** For each place of `data`, the same in words. */
  rows: readonly (readonly string[])[];
  columns: readonly string[];
  onPick?: (index: number) => void;
};

const scheme = matchMedia('(prefers-color-scheme: dark)');

/** @param source what it is made of: another one is drawn again */
export function Chart({ source, ...chart }: ChartProps & { source: object }) {
  const { title, summary, legend, rows, columns, onPick } = chart;
  const place = useRef<HTMLDivElement>(null);
  const pointed = useSignal<number | null>(null);
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    let plot: uPlot | null = null;
    const show = (): void => {
      plot?.destroy();
      plot = new uPlot(
        optionsOf(chart, box.clientWidth, (index) => (pointed.value = index)),
        chart.data,
        box,
      );
      plot.over.addEventListener('click', () => pointed.value !== null && onPick?.(pointed.value));
    };
    show();
    const sizes = new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: chart.height }));
    sizes.observe(box);
    scheme.addEventListener('change', show);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener('change', show);
      pointed.value = null;
      plot?.destroy();
    };
  }, [source]);
  const row = pointed.value === null ? undefined : rows[pointed.value];
  const facts = row?.map((text, column) => words.of(columns[column] ?? '', text)).join(', ');
  return (
    <figure class="chart">
      <div ref={place} aria-hidden="true" class={onPick && 'picks'} />
      <figcaption>{facts ?? words.of(title, summary)}</figcaption>
      <ul class="legend">
        {Object.entries(legend).map(([name, text]) => (
          <li key={name} class={name}>
            {text}
          </li>
        ))}
      </ul>
      <details>
        <summary>{words.asTable(title)}</summary>
        <div class="rows" tabIndex={0} role="region" aria-label={title}>
          <table>
            <tr>
              {columns.map((text) => (
                <th key={text}>{text}</th>
              ))}
            </tr>
            {rows.map((cells, index) => (
              <tr key={index}>
                {cells.map((text, column) => (
                  <td key={column}>
                    {onPick && column === 0 ? <Pick text={text} onPick={() => onPick(index)} /> : text}
                  </td>
                ))}
              </tr>
            ))}
          </table>
        </div>
      </details>
    </figure>
  );
}

function Pick({ text, onPick }: { text: string; onPick: () => void }) {
  return (
    <button type="button" class="link" aria-label={words.showDay(text)} onClick={onPick}>
      {text}
    </button>
  );
}

function optionsOf(
  { draw, zone, height, hasDates, axis }: ChartProps,
  width: number,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const [on, off, soft, line] = ['--accent', '--edge', '--soft', '--line'].map((name) =>
    style.getPropertyValue(name),
  ) as [string, string, string, string];
  const { hooks, cursor, ...drawing } = draw({ on, off, soft, unknown: hatch(soft) });
  const lines = { stroke: soft, grid: { stroke: line }, ticks: { stroke: line } };
  const { date, time } = words.axis;
  const stamps = [
    [86_400, date, null, null, null, null, null, null, 1],
    [1, time, null, null, hasDates ? `\n${date}` : null, null, null, null, 1],
  ] as uPlot.Axis.Values;
  const valueAxis = axis === null ? { show: false } : { ...lines, ...axis };
  return {
    ...drawing,
    ...{ width, height, axes: [{ ...lines, values: stamps, size: hasDates ? 46 : 30 }, valueAxis] },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, ...cursor },
    hooks: { ...hooks, setCursor: [({ cursor: { idxs } }) => onPoint(idxs?.[1] ?? null)] },
  };
}

function hatch(colour: string): string | CanvasPattern {
  const size = Math.round(6 * devicePixelRatio);
  const tile = Object.assign(document.createElement('canvas'), { width: size, height: size });
  const pen = tile.getContext('2d');
  if (pen === null) return colour;
  pen.strokeStyle = colour;
  for (const at of [-size, 0, size]) {
    pen.moveTo(at, size);
    pen.lineTo(at + size, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, 'repeat') ?? colour;
}
