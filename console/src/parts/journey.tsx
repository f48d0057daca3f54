// A command on its way: who gave it, each step with the milliseconds since it was accepted, where and why it ended, and
// whether something else saw it work.
import type { Command } from '@latchwork/client';
import { describeError } from '../errors.ts';
import { texts } from '../texts.ts';
import { activityTexts } from '../texts/activity.ts';
import { witnessTexts } from '../texts/witness.ts';
import { WitnessOutcome } from '../witness/outcome.tsx';
import { isUnproven, Outcome } from './status.tsx';

/** @param hasMoved the device reported something else since it confirmed the command */
export function Journey({ command, hasMoved, error }: { command: Command | null; hasMoved: boolean; error: unknown }) {
  return (
    <div class="journey" aria-live="polite">
      {command !== null && (
        <>
          <Outcome command={command} />
          <p class="means hint">{meaningOf(command, hasMoved)}</p>
          <WitnessOutcome command={command} />
          <Steps command={command} />
        </>
      )}
      {command === null && error === null && <p>{texts.loading}</p>}
      {error !== null && (
        <p class="problem" role="alert">
          {describeError(error)}
        </p>
      )}
    </div>
  );
}

function meaningOf(command: Command, hasMoved: boolean): string {
  const { means, movedSince, replyOnly } = activityTexts.way;
  if (command.state === 'confirmed' && hasMoved) return movedSince;
  return command.state === 'acknowledged' && !isUnproven(command) ? replyOnly : means[command.state];
}

/** Empty until it is known who the user of this page is. */
export function giverOf({ givenBy, scheduleId }: Command, givers: ReadonlyMap<number | null, string>): string {
  const words = activityTexts.way;
  if (scheduleId !== null) return scheduleId === 'lease' ? words.byLease : words.bySchedule;
  if (givenBy === null) return words.byGuest;
  if (givers.size === 0) return '';
  const name = givers.get(givenBy.userId) ?? words.somebody;
  if (givenBy.via === 'home') return words.byHome(name);
  return givenBy.withKey ? words.byKey(name) : words.by(name);
}

/** Each step with the milliseconds since it was accepted. */
export function Steps({ command: { steps, witness } }: { command: Command }) {
  const words = activityTexts.way.steps;
  // Of a broker nobody knows when the device has it, unless it replies.
  const isDirect = steps.deliveredAt !== null;
  const shown = [
    [words.accepted, steps.accepted],
    [words.published, steps.published],
    [isDirect ? words.isDirect : words.brokerAcknowledged, steps.brokerAcknowledged],
    ...(isDirect ? [[words.deliveredAt, steps.deliveredAt] as const] : []),
    [words.deviceAcknowledged, steps.deviceAcknowledged],
    [words.confirmed, steps.confirmed],
    ...(witness === null ? [] : [[witnessTexts.step, steps.witnessed] as const]),
  ] as const;
  return (
    <ol class="steps">
      {shown.map(([label, atMs]) => (
        <li key={label} class={atMs === null ? 'open' : 'done'}>
          <span>{label}</span>
          <span>{atMs === null ? '–' : activityTexts.way.ms(atMs - steps.accepted)}</span>
        </li>
      ))}
    </ol>
  );
}
