// Fields, buttons and forms: a form shows that it works, what went wrong, and is not sent twice.
import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { withConfirmation } from '../state/confirmation.ts';
import { whenLiveAgain } from '../state/live.ts';
import { texts } from '../texts.ts';

export type FieldProps = {
  label: string;
  name: string;
  hint?: string;
  type?: 'text' | 'url' | 'email' | 'password' | 'number' | 'color' | 'file' | 'time' | 'date' | 'datetime-local';
  accept?: string;
  value?: string;
  required?: boolean;
  readOnly?: boolean;
  autoComplete?: string;
  min?: number;
  max?: number;
  step?: number;
  maxLength?: number;
  onInput?: (value: string) => void;
};

export function Field({ label, hint, name, value = '', onInput, ...rest }: FieldProps) {
  const id = useId();
  // Which attributes go with which type is checked by Preact's types, for a type that is known here.
  const attributes = rest as Record<string, unknown>;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        defaultValue={value}
        aria-describedby={hint && `${id}-hint`}
        onInput={(event) => onInput?.(event.currentTarget.value)}
        {...attributes}
      />
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}

type TextAreaProps = { label: string; name: string; hint?: string; rows?: number; value?: string };

export function TextArea({ label, name, hint, rows = 6, value = '' }: TextAreaProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        name={name}
        rows={rows}
        defaultValue={value}
        spellcheck={false}
        aria-describedby={hint && `${id}-hint`}
      />
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}

type SearchProps = { label: string; hint: string; value: string; onChange: (text: string) => void };

/** What is typed counts once the typing rests. */
const searchAfterMs = 300;

export function Search({ label, hint, value, onChange }: SearchProps) {
  const id = useId();
  const text = useSignal(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  // It was emptied from outside.
  useEffect(() => {
    if (text.peek().trim() !== value) text.value = value;
  }, [value]);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="search"
        placeholder={hint}
        maxLength={100}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => onChange(text.peek().trim()), searchAfterMs);
        }}
      />
    </div>
  );
}

type SelectProps = {
  label: string;
  hint?: string;
  name: string;
  value: string;
  options: readonly (readonly [value: string, label: string])[];
  onChange?: (value: string) => void;
};

export function Select({ label, hint, name, value, options, onChange }: SelectProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        name={name}
        aria-describedby={hint && `${id}-hint`}
        onChange={(event) => onChange?.(event.currentTarget.value)}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}

type ChoiceProps<Option extends string> = {
  legend: string;
  labels: Readonly<Record<Option, string>>;
  chosen: Signal<Option>;
};

/** One of a few, all of which are shown. */
export function Choice<Option extends string>({ legend, labels, chosen }: ChoiceProps<Option>) {
  const name = useId();
  return (
    <fieldset>
      <legend>{legend}</legend>
      {(Object.keys(labels) as Option[]).map((one) => (
        <label key={one} class="check">
          <input type="radio" name={name} checked={chosen.value === one} onChange={() => (chosen.value = one)} />
          {labels[one]}
        </label>
      ))}
    </fieldset>
  );
}

type FormProps = {
  submit: string;
  /** The values of its fields by name. What it throws is shown in words. */
  onSubmit: (values: Record<string, string>, data: FormData) => Promise<void>;
  children: ComponentChildren;
  danger?: boolean;
  /** Said after it worked. */
  done?: string;
  /** Its fields are emptied after it worked. */
  isEmptied?: boolean;
  /** Nothing is left to type: its button has the focus. */
  isFilledIn?: boolean;
  /** Sentences that fit this form better than the usual ones, by the word of the service. */
  explain?: Readonly<Record<string, string>>;
};

export function Form(props: FormProps) {
  const { submit, onSubmit, children, danger = false, done, isEmptied, isFilledIn = false, explain } = props;
  const { isBusy, error, run } = useAction(explain);
  const isDone = useSignal(false);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isFilledIn) button.current?.focus();
  }, []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        isDone.value = false;
        const data = new FormData(form);
        const values = Object.fromEntries(
          [...data].flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
        );
        run(async () => {
          await onSubmit(values, data);
          isDone.value = true;
          if (isEmptied) form.reset();
        });
      }}
    >
      {children}
      <Problem text={error} />
      <button ref={button} type="submit" class={danger ? 'danger' : 'primary'} disabled={isBusy} aria-busy={isBusy}>
        {submit}
      </button>
      {done !== undefined && (
        <p class="done" role="status">
          {isDone.value ? done : ''}
        </p>
      )}
    </form>
  );
}

type ActionProps = {
  label: string;
  /** What it is called where several on a screen have the same label. */
  name?: string;
  onPress: () => Promise<void>;
  kind?: 'primary' | 'danger' | undefined;
  disabled?: boolean;
};

/** A button for something that takes a while and may fail. */
export function Action({ label, name, onPress, kind, disabled = false }: ActionProps) {
  const { isBusy, error, run } = useAction();
  return (
    <>
      <button
        type="button"
        class={kind}
        aria-label={name}
        disabled={disabled || isBusy}
        aria-busy={isBusy}
        onClick={() => run(onPress)}
      >
        {label}
      </button>
      <Problem text={error} />
    </>
  );
}

/** That the service cannot be reached is over when the page is live again. */
export function Problem({ text }: { text: string }) {
  const isPast = useSignal(false);
  useEffect(() => {
    isPast.value = false;
    return whenLiveAgain(() => (isPast.value = text === texts.errors.no_answer));
  }, [text]);
  return (
    <p class="problem" role="alert">
      {isPast.value ? '' : text}
    </p>
  );
}

/** Work that is shown while it runs, and in words where it fails; one at a time. */
export function useAction(explain?: Readonly<Record<string, string>>) {
  const isBusy = useSignal(false);
  const error = useSignal('');
  const run = (work: () => Promise<void>) => {
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = '';
    withConfirmation(work)
      .catch((failure: unknown) => (error.value = describeError(failure, explain)))
      .finally(() => (isBusy.value = false));
  };
  return { isBusy: isBusy.value, error: error.value, run };
}
