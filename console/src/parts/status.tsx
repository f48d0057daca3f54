// Presence and position as words with a colour: never a colour alone.
import { texts } from '../texts.ts';

export function Status({ status }: { status: keyof typeof texts.status }) {
  return <span class={`status ${status}`}>{texts.status[status]}</span>;
}

export function PositionText({ position }: { position: 'up' | 'middle' | 'down' | null }) {
  return (
    <span class={position === null ? 'position unknown' : 'position'}>{texts.position[position ?? 'unknown']}</span>
  );
}
