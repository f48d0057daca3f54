// The heading of a screen. After a change of screen it has the focus, so that keyboard and screen reader begin there.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** The screen with which the page opens leaves the focus to the browser. */
let isOpening = true;

export function Title({ children }: { children: ComponentChildren }) {
  const ref = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!isOpening) ref.current?.focus({ preventScroll: true });
    isOpening = false;
  }, []);
  return (
    <h1 ref={ref} tabIndex={-1}>
      {children}
    </h1>
  );
}
