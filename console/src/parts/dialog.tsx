// Questions before something is gone for good, and values that are shown once. The browser's own dialog element keeps
// the focus inside and closes with Escape.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { texts } from '../texts.ts';

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren };

export function Dialog({ title, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => ref.current?.showModal(), []);
  return (
    <dialog ref={ref} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
      <button type="button" onClick={() => ref.current?.close()}>
        {texts.close}
      </button>
    </dialog>
  );
}

/** A value that the service shows once, with a button that copies it. */
export function Once({ label, value }: { label: string; value: string }) {
  const isCopied = useSignal(false);
  return (
    <div class="once">
      <span>{label}</span>
      <code>{value}</code>
      <button
        type="button"
        onClick={() => {
          navigator.clipboard.writeText(value).then(
            () => (isCopied.value = true),
            // Refused by the browser: the text can still be selected.
            (error: unknown) => {
              isCopied.value = false;
              console.info(texts.notCopied, error);
            },
          );
        }}
      >
        {isCopied.value ? texts.copied : texts.copy}
      </button>
    </div>
  );
}
