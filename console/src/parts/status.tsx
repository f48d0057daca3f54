// Presence, position and the outcome of a command as words with a colour: never a colour alone.
import type { Command } from '@latchwork/client';
import { explainReason } from '../errors.ts';
import { texts } from '../texts.ts';

export function Status({ status }: { status: keyof typeof texts.status }) {
  return <span class={`status ${status}`}>{texts.status[status]}</span>;
}

/** @param position an angle in degrees, if it is a number; null: it is not known */
export function PositionText({ position }: { position: 'up' | 'middle' | 'down' | number | null }) {
  const text = typeof position === 'number' ? `${position}°` : texts.position[position ?? 'unknown'];
  return <span class={position === null ? 'position unknown' : 'position'}>{text}</span>;
}

const good: readonly Command['state'][] = ['acknowledged', 'confirmed'];
const bad: readonly Command['state'][] = ['undelivered', 'expired', 'failed', 'cancelled'];

export function Outcome({ command }: { command: Command }) {
  const { state, reason, replyCode } = command;
  const kind = isUnproven(command) ? 'open' : good.includes(state) ? 'good' : bad.includes(state) ? 'bad' : 'open';
  const words = texts.command;
  const why = state === 'failed' ? words.errorReply(replyCode) : explainReason(reason ?? '', words.reasons);
  return (
    <span class={`outcome ${kind}`}>
      {words.states[state]}
      {why !== '' && `: ${why}`}
    </span>
  );
}

/** A report would show it, and none has. */
export function isUnproven({ state, params }: Command): boolean {
  return state === 'acknowledged' && ('position' in params || 'angle' in params);
}
