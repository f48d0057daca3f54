// A long list of rows of one height, which the style sheet sets. Only those in view are in the page, the scroll bar is that of
// the whole list.
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const spare = 10;

type Props = {
  count: number;
  row: (index: number) => ComponentChildren;
  /** Rows `from` to `to` are in view or close to it. */
  onView: (from: number, to: number) => void;
};

export function Window({ count, row, onView }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const from = useSignal(0);
  const to = useSignal(40);
  useEffect(() => {
    const look = (): void => {
      if (ref.current === null) return;
      const rowHeight = parseFloat(getComputedStyle(ref.current).getPropertyValue('--row'));
      const top = -ref.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(top / rowHeight) - spare);
      from.value = first;
      to.value = first + Math.ceil(innerHeight / rowHeight) + 2 * spare;
    };
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, []);
  const end = Math.min(count, to.value);
  useEffect(() => onView(from.value, end), [from.value, end, count]);
  const shown = Array.from({ length: Math.max(0, end - from.value) }, (_, offset) => from.value + offset);
  return (
    <div ref={ref} role="rowgroup" class="window" style={{ height: `calc(${count} * var(--row))` }}>
      {shown.map((index) => (
        <div
          key={index}
          role="row"
          aria-rowindex={index + 2}
          class="row"
          style={{ top: `calc(${index} * var(--row))` }}
        >
          {row(index)}
        </div>
      ))}
    </div>
  );
}
