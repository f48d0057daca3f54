// What the user is told and when, as a tab of the settings.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Field, Form, Problem, Select } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { noticesTexts } from '../texts/telling.ts';
import { browserZone } from '../times/draft.ts';
import { PushPart } from './push-part.tsx';

const words = noticesTexts.form;
type Settings = Data<Client['users']['me']['notice-settings']['$get']>;
type Cause = Settings['off'][number];
type Hours = NonNullable<Settings['quietHours']>;

const causes = Object.keys(words.causes) as Cause[];
const nightHours = { from: '22:00', to: '06:00' };

export function NoticeSettings() {
  const api = session().api.users.me['notice-settings'];
  const { value: settings, problem } = useRead(() => dataOf(api.$get()));
  if (settings.value === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  return (
    <div class="single">
      <section class="card" aria-label={words.title}>
        <h2>{words.title}</h2>
        <p class="hint">{words.hint}</p>
        <SettingsForm
          settings={settings.value}
          onSave={async (json) => {
            settings.value = await dataOf(api.$put({ json }));
          }}
        />
      </section>
      <PushPart />
    </div>
  );
}

type Props = { settings: Settings; onSave: (settings: Settings) => Promise<void> };

function SettingsForm({ settings, onSave }: Props) {
  const { off, offlineAfterSeconds, handHours, quietHours } = settings;
  // Without hours nobody is told of a movement by hand.
  const startsOn = (cause: Cause) => !off.includes(cause) && (cause !== 'moved_by_hand' || handHours !== null);
  const on = useSignal<readonly Cause[]>(causes.filter(startsOn));
  const isQuiet = useSignal(quietHours !== null);
  const hasMinutes = useSignal(offlineAfterSeconds !== null);
  const otherZone = [handHours, quietHours].find((hours) => (hours?.zone ?? browserZone) !== browserZone)?.zone;
  const choose = (cause: Cause, isOn: boolean) => {
    on.value = causes.filter((name) => (name === cause ? isOn : on.value.includes(name)));
  };
  const below: Partial<Record<Cause, ComponentChildren>> = {
    offline: (
      <div class="pair">
        <Select
          label={words.offlineAfter}
          name="offlineKind"
          value={hasMinutes.value ? 'minutes' : 'usual'}
          options={Object.entries(words.offlineKinds)}
          onChange={(kind) => (hasMinutes.value = kind === 'minutes')}
        />
        {hasMinutes.value && (
          <Field
            label={words.minutes}
            name="minutes"
            type="number"
            min={1}
            max={10_080}
            value={String((offlineAfterSeconds ?? 1800) / 60)}
            required
          />
        )}
      </div>
    ),
    moved_by_hand: <HoursFields name="hand" hours={handHours ?? nightHours} />,
  };
  return (
    <Form
      submit={words.save}
      done={words.saved}
      onSubmit={async (values) => {
        const hours = (name: string): Hours => ({
          from: values[`${name}From`] ?? '',
          to: values[`${name}To`] ?? '',
          zone: browserZone,
        });
        const isTold = (cause: Cause) => on.value.includes(cause);
        const { minutes } = values;
        await onSave({
          off: causes.filter((cause) => !isTold(cause)),
          // What is not shown stays as it was.
          offlineAfterSeconds: isTold('offline')
            ? minutes === undefined
              ? null
              : Math.round(Number(minutes) * 60)
            : offlineAfterSeconds,
          handHours: isTold('moved_by_hand') ? hours('hand') : handHours,
          quietHours: isQuiet.value ? hours('quiet') : null,
        });
      }}
    >
      {causes.map((cause) => (
        <div key={cause} class="option">
          <Check
            label={words.causes[cause]}
            checked={on.value.includes(cause)}
            onChange={(isOn) => choose(cause, isOn)}
          />
          {on.value.includes(cause) && below[cause] !== undefined && <div class="below">{below[cause]}</div>}
        </div>
      ))}
      <div class="option">
        <Check label={words.quiet} checked={isQuiet.value} onChange={(isOn) => (isQuiet.value = isOn)} />
        {isQuiet.value && (
          <div class="below">
            <HoursFields name="quiet" hours={quietHours ?? nightHours} />
          </div>
        )}
      </div>
      <p class="hint">
        {words.zone(browserZone)} {otherZone !== undefined && words.otherZone(otherZone)}
      </p>
    </Form>
  );
}

type CheckProps = { label: string; checked: boolean; onChange: (isOn: boolean) => void };

function Check({ label, checked, onChange }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}
    </label>
  );
}

function HoursFields({ name, hours: { from, to } }: { name: string; hours: { from: string; to: string } }) {
  return (
    <div class="pair">
      <Field label={words.from} name={`${name}From`} type="time" value={from} required />
      <Field label={words.to} name={`${name}To`} type="time" value={to} required />
    </div>
  );
}
