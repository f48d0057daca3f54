// A long list of items of one height, which the style sheet sets (`--row`), one or more beside each other (`--columns`). Only those
// in view are in the page, the scroll bar is that of the whole list.
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

const sparePixels = 520;

const roles = {
  table: { of: 'rowgroup', item: 'row', place: (index: number) => ({ 'aria-rowindex': index + 2 }) },
  list: {
    of: 'list',
    item: 'listitem',
    place: (index: number, count: number) => ({ 'aria-posinset': index + 1, 'aria-setsize': count }),
  },
} as const;

type Props = {
  kind: keyof typeof roles;
  count: number;
  item: (index: number) => ComponentChildren;
  /** Items `from` to `to` are in view or close to it. */
  onView: (from: number, to: number) => void;
};

export function Window({ kind, count, item, onView }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  const columns = useSignal(1);
  const from = useSignal(0);
  const to = useSignal(40);
  useEffect(() => {
    const look = (): void => {
      if (ref.current === null) return;
      const style = getComputedStyle(ref.current);
      const rowHeight = parseFloat(style.getPropertyValue('--row'));
      columns.value = Number(style.getPropertyValue('--columns'));
      const top = -ref.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor((top - sparePixels) / rowHeight));
      from.value = first * columns.value;
      to.value = (first + Math.ceil((innerHeight + 2 * sparePixels) / rowHeight)) * columns.value;
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
  const { of, item: itemRole, place } = roles[kind];
  const width = 100 / columns.value;
  return (
    <div
      ref={ref}
      role={of}
      class="window"
      style={{ height: `calc(${Math.ceil(count / columns.value)} * var(--row))` }}
    >
      {shown.map((index) => (
        <div
          key={index}
          role={itemRole}
          class={itemRole}
          {...place(index, count)}
          style={{
            top: `calc(${Math.floor(index / columns.value)} * var(--row))`,
            left: `${(index % columns.value) * width}%`,
            width: `${width}%`,
          }}
        >
          {item(index)}
        </div>
      ))}
    </div>
  );
}
