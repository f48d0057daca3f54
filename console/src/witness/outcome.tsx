// What something else saw: whether a command worked, and what was seen last.
import type { Client, Command, Data } from '@latchwork/client';
import { ago, clockTime } from '../state/clock.ts';
import { askName, nameOf } from '../state/device-names.ts';
import { activityTexts } from '../texts/activity.ts';
import { witnessTexts as words } from '../texts/witness.ts';

export type Actual = NonNullable<Data<Client['devices'][':deviceId']['status']['$get']>['actual']>;

/** Nothing for a command without a witness. */
export function WitnessOutcome({ command: { witness, steps } }: { command: Command }) {
  if (witness === null) return null;
  const { outcome, expect, by, at, dueAt, reason } = witness;
  const what = words.values[expect];
  const kinds = { pending: 'open', witnessed: 'good', not_witnessed: 'bad' };
  const ms = at === null ? '' : activityTexts.way.ms(Date.parse(at) - steps.accepted);
  const text = {
    pending: words.pending(clockTime(Date.parse(dueAt))),
    witnessed: words.witnessed(what, byWords(by ?? ''), ms),
    not_witnessed: words.notWitnessed(what, words.reasons[reason ?? 'not_seen']),
  };
  return (
    <p class="witness">
      <span class={`outcome ${kinds[outcome]}`}>{text[outcome]}</span>
    </p>
  );
}

/** When it was seen, by what, and how long ago. */
export function seenWords({ seenAt, by, reading }: Actual): string {
  const shown = reading === null ? '' : words.reading(String(reading));
  const seenAtMs = Date.parse(seenAt);
  return words.seen(clockTime(seenAtMs), byWords(by), shown, ago(seenAtMs));
}

/** Another device, or how the witness saw it. */
function byWords(by: string): string {
  const text = words.by[by];
  if (text === undefined) askName(by);
  return text ?? nameOf(by);
}
