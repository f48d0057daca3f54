// Tabs whose names are links: each has its address, so that history, bookmarks and a second window work. Arrows move between
// them, Enter or the space bar opens one.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

type Props = {
  label: string;
  tabs: readonly { tab: string; text: string; href: string }[];
  open: string;
  children: ComponentChildren;
};

const steps: Partial<Record<string, (index: number, count: number) => number>> = {
  ArrowRight: (index, count) => (index + 1) % count,
  ArrowLeft: (index, count) => (index - 1 + count) % count,
  Home: () => 0,
  End: (_, count) => count - 1,
};

export function Tabs({ label, tabs, open, children }: Props) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    const focused = document.activeElement;
    // What had the focus went with the former tab: the keyboard goes on from the one that is open.
    const isLost = focused === document.body || list.current?.contains(focused) === true;
    if (!isFirst.current && isLost) list.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
    isFirst.current = false;
  }, [open]);
  const move = (event: KeyboardEvent): void => {
    const names = [...(list.current?.querySelectorAll<HTMLElement>('[role=tab]') ?? [])];
    const index = names.indexOf(event.target as HTMLElement);
    const next = steps[event.key]?.(index, names.length);
    if (next === undefined && event.key !== ' ') return;
    event.preventDefault();
    if (next === undefined) names[index]?.click();
    else names[next]?.focus();
  };
  return (
    <>
      <div ref={list} role="tablist" aria-label={label} class="tabs" onKeyDown={move}>
        {tabs.map(({ tab, text, href }) => (
          <a
            key={tab}
            id={`${id}-${tab}`}
            role="tab"
            href={href}
            aria-selected={tab === open}
            aria-controls={tab === open ? `${id}-panel` : undefined}
            tabIndex={tab === open ? 0 : -1}
          >
            {text}
          </a>
        ))}
      </div>
      <div key={open} id={`${id}-panel`} role="tabpanel" aria-labelledby={`${id}-${open}`}>
        {children}
      </div>
    </>
  );
}
