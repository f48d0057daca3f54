// A chart on a canvas: in the colours of the page, as wide as its place, in the time of a zone. A canvas has no words, so
// sentences beside it say the same.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { usageTexts as words } from '../texts/usage.ts';

export type Paint = { on: string; off: string; unknown: string | CanvasPattern };
export type ChartProps = {
  data: uPlot.AlignedData;
  draw: (paint: Paint) => Pick<uPlot.Options, 'series' | 'scales' | 'bands' | 'cursor' | 'hooks'>;
  zone: string;
  height: number;
  /** null: no values beside it. */
  axis: uPlot.Axis | null;
  title: string;
  /** What all of it says. */
  summary: string;
  /** What each place of `data` says. */
  facts: readonly string[];
  /** By the class of what it looks like. */
  legend: Readonly<Record<string, string>>;
  onPick?: (index: number) => void;
};

type Pointer = { left: number; top: number };

const scheme = matchMedia('(prefers-color-scheme: dark)');

/** @param source what it is made of: another one is drawn again */
export function Chart({ source, ...chart }: ChartProps & { source: object }) {
  const { title, summary, facts, legend, onPick } = chart;
  const place = useRef<HTMLDivElement>(null);
  const pointed = useSignal<number | null>(null);
  // In pixels. It stays where it is when the chart is drawn again.
  const pointer = useRef<Pointer>({ left: -10, top: -10 });
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    let plot: uPlot | null = null;
    const show = (): void => {
      plot?.destroy();
      plot = new uPlot(
        optionsOf(chart, box.clientWidth, pointer.current, ({ idxs, left = -10, top = -10 }) => {
          pointer.current = { left, top };
          pointed.value = idxs?.[1] ?? null;
        }),
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
  return (
    <figure class="chart">
      <div ref={place} aria-hidden="true" class={onPick && 'picks'} />
      <figcaption>{facts[pointed.value ?? -1] ?? words.of(title, summary)}</figcaption>
      <ul class="legend" aria-hidden="true">
        {Object.entries(legend).map(([name, text]) => (
          <li key={name} class={name}>
            {text}
          </li>
        ))}
      </ul>
      <details>
        <summary>{words.inWords(title)}</summary>
        <ul>
          {facts.map((text, index) => (
            <li key={index}>{text}</li>
          ))}
        </ul>
      </details>
    </figure>
  );
}

function optionsOf(
  chart: ChartProps,
  width: number,
  pointer: Pointer,
  onPoint: (cursor: uPlot.Cursor) => void,
): uPlot.Options {
  const { draw, zone, height, axis } = chart;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name);
  const edge = colour('--edge');
  const { hooks, cursor, ...drawing } = draw({ on: colour('--accent'), off: edge, unknown: hatch(edge) });
  const stroke = colour('--line');
  const lines = { stroke: colour('--soft'), grid: { stroke, width: 1 }, ticks: { stroke, width: 1 } };
  const { date, time } = words.axis;
  const stamps = [
    [86_400, date, null, null, null, null, null, null, 0],
    [1, time, null, null, date, null, null, null, 0],
  ] as uPlot.Axis.Values;
  const valueAxis = axis === null ? { show: false } : { ...lines, ...axis };
  return {
    ...drawing,
    ...{ width, height, axes: [{ ...lines, values: stamps, size: 30 }, valueAxis] },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, ...pointer, ...cursor },
    hooks: { ...hooks, setCursor: [(plot) => onPoint(plot.cursor)] },
  };
}

function hatch(colour: string): string | CanvasPattern {
  const size = Math.round(6 * devicePixelRatio);
  const tile = Object.assign(document.createElement('canvas'), { width: size, height: size });
  const pen = tile.getContext('2d');
  if (pen === null) return colour;
  pen.strokeStyle = colour;
  pen.scale(size / 6, size / 6);
  pen.stroke(new Path2D('M-1 1L1-1M0 6L6 0M5 7L7 5'));
  return pen.createPattern(tile, 'repeat') ?? colour;
}
