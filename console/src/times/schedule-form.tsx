// The form of a schedule, new or changed, with its next runs as the service computes them from what is typed.
import type { Schedule, ScheduleBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { InputError } from '../errors.ts';
import { Field, Form, Select, type FieldProps } from '../parts/form.tsx';
import type { Device } from '../state/device.ts';
import { timesTexts } from '../texts/times.ts';
import { draftOf, formOf, kinds, weekdays, zoneOptions, type CommandName, type Kind } from './draft.ts';
import { PlaceFields } from './place-fields.tsx';
import { Preview } from './preview.tsx';
import type { Times } from './times-view.ts';

const words = timesTexts.form;
const commandsOf: Record<Device['product']['controlMode'], readonly CommandName[]> = {
  toggle: ['up', 'middle', 'down'],
  pulse: ['pulse', 'trigger'],
  dimmer: ['angle'],
  readonly: [],
  generic: ['up', 'middle', 'down', 'pulse', 'trigger', 'angle'],
};

/** A field whose label and first value have its name. */
type TypedName = Exclude<keyof ReturnType<typeof formOf>, 'command' | 'kind' | 'place' | 'days' | 'zone'>;

type Props = {
  times: Times;
  mode: Device['product']['controlMode'];
  /** null: a new one. */
  schedule: Schedule | null;
  onDone: () => void;
};

export function canBeScheduled(mode: Device['product']['controlMode']): boolean {
  return commandsOf[mode].length > 0;
}

export function ScheduleForm({ times, mode, schedule, onDone }: Props) {
  const start = formOf(schedule);
  const kind = useSignal<Kind>(start.kind);
  const offered = commandsOf[mode];
  const command = useSignal<CommandName>(schedule === null ? (offered[0] ?? 'trigger') : start.command);
  const draft = useSignal<ScheduleBody | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const look = (): void => {
    const form = box.current?.querySelector('form');
    draft.value = form?.checkValidity() === true ? draftIfWhole(new FormData(form)) : null;
  };
  // After the fields of another kind are there.
  useEffect(look, [kind.value, command.value]);
  const field = (name: TypedName, attributes: Partial<FieldProps>) => (
    <Field label={words[name]} name={name} value={start[name]} {...attributes} />
  );
  const isSun = kind.value === 'sunrise' || kind.value === 'sunset';
  return (
    <div ref={box} onInput={look} onChange={look}>
      <Form
        submit={timesTexts.save}
        onSubmit={async (_, data) => {
          const enabled = schedule?.pausedBecause !== 'user';
          await times.save({ ...draftOf(data), enabled }, schedule?.scheduleId);
          onDone();
        }}
      >
        <Select
          label={words.command}
          name="command"
          value={command.value}
          options={offered.map((name) => [name, words.commands[name]])}
          onChange={(name) => (command.value = name as CommandName)}
        />
        {command.value === 'pulse' && field('duration', { ...number(1, 60_000), required: true })}
        {command.value === 'angle' && field('angle', { ...number(0, 180), required: true })}
        <Select
          label={words.when}
          name="kind"
          value={kind.value}
          options={kinds.map((name) => [name, words.kinds[name]])}
          onChange={(name) => (kind.value = name as Kind)}
        />
        {kind.value === 'time' && field('time', { type: 'time', required: true })}
        {kind.value === 'once' && field('date', { type: 'datetime-local', required: true })}
        {isSun && (
          <>
            {field('offset', { ...number(-720, 720), required: true })}
            <PlaceFields place={start.place} onChange={look} />
          </>
        )}
        {kind.value !== 'once' && (
          <fieldset class="days">
            <legend>{words.days}</legend>
            {weekdays.map((day) => (
              <label key={day} class="check">
                <input type="checkbox" name="days" value={day} defaultChecked={start.days.includes(day)} />
                {timesTexts.days[day]}
              </label>
            ))}
          </fieldset>
        )}
        <Select label={words.zone} name="zone" value={start.zone} options={zoneOptions(start.zone)} />
        <details class="more" open={[start.name, start.from, start.until, start.except].some((text) => text !== '')}>
          <summary>{words.more}</summary>
          {field('name', { maxLength: 100 })}
          {kind.value !== 'once' && (
            <>
              <div class="pair">
                {field('from', { type: 'date' })}
                {field('until', { type: 'date' })}
              </div>
              {field('except', { hint: words.exceptHint })}
            </>
          )}
          <div class="pair">
            {field('jitter', { ...number(0, 3600), hint: words.jitterHint })}
            {field('grace', { ...number(5, 3600), hint: words.graceHint })}
          </div>
        </details>
        <Preview deviceId={times.deviceId} draft={draft.value} />
      </Form>
    </div>
  );
}

function number(min: number, max: number) {
  return { type: 'number', min, max } as const;
}

/** What is not a schedule yet has no next runs; saving says why. */
function draftIfWhole(data: FormData): ScheduleBody | null {
  try {
    return draftOf(data);
  } catch (error) {
    if (error instanceof InputError) return null;
    throw error;
  }
}
