// Questions before something is gone for good, and values that are shown once. The browser's own dialog element keeps
// the focus inside and closes with Escape.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { texts } from '../texts.ts';
import { Action } from './form.tsx';

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren };

export function Dialog({ title, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    // Gives the focus back to the button that opened it.
    return () => dialog?.close();
  }, []);
  useEffect(() => {
    // Not the first button, which may delete: the first field, or else the heading.
    const field = ref.current?.querySelector<HTMLElement>('input, select');
    (field ?? ref.current?.querySelector('h2'))?.focus();
  }, [title]);
  return (
    <dialog ref={ref} aria-labelledby={id} onClose={onClose}>
      <h2 id={id} tabIndex={-1}>
        {title}
      </h2>
      {children}
      <button type="button" onClick={() => ref.current?.close()}>
        {texts.close}
      </button>
    </dialog>
  );
}

type AskFirstProps = {
  label: string;
  /** What it is called where several on a screen have the same label. */
  name?: string;
  kind?: 'danger';
  warning: string;
  confirm: string;
  onConfirm: () => Promise<void>;
};

/** A button for something that cannot be undone: it warns first. */
export function AskFirst({ label, name, kind, warning, confirm, onConfirm }: AskFirstProps) {
  const isAsking = useSignal(false);
  const run = async (): Promise<void> => {
    await onConfirm();
    isAsking.value = false;
  };
  return (
    <>
      <button type="button" class={kind} aria-label={name} onClick={() => (isAsking.value = true)}>
        {label}
      </button>
      {isAsking.value && (
        <Dialog title={name ?? label} onClose={() => (isAsking.value = false)}>
          <p>{warning}</p>
          <Action label={confirm} kind="danger" onPress={run} />
        </Dialog>
      )}
    </>
  );
}

/** A value that the service shows once, with a button that copies it. */
export function Once({ label, value }: { label: string; value: string }) {
  const id = useId();
  const isCopied = useSignal(false);
  return (
    <div class="once">
      <span id={id}>{label}</span>
      <code>{value}</code>
      <button
        type="button"
        aria-describedby={id}
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
