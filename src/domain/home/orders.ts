// What a client of a home publishes for a device, as the control body that it means (contract 4.3). Pure.
import { refuse, type Outcome } from '../refusal.ts';
import type { HomeAction } from './topics.ts';

/** A command, or the state that the witness has to see. */
export type Order =
  { body: { action: 'toggle' | 'pulse' | 'trigger'; position?: string } | { angle: number } } | Ensure;
type Ensure = { ensures: 'on' | 'off' };

const positions = ['up', 'middle', 'down'];

export function readOrder(action: Exclude<HomeAction, 'birth'>, payload: string | undefined): Outcome<Order> {
  const text = payload ?? '';
  if (action === 'press') {
    if (text === 'pulse' || text === 'trigger') return { ok: true, value: { body: { action: text } } };
  } else if (positions.includes(text)) {
    return { ok: true, value: { body: { action: 'toggle', position: text } } };
  } else if (text === 'on' || text === 'off') {
    return { ok: true, value: { ensures: text } };
  } else if (/^\d{1,3}$/.test(text) && Number(text) <= 180) {
    return { ok: true, value: { body: { angle: Number(text) } } };
  }
  return refuse({ kind: 'invalid_input', path: action, problem: 'is none of the documented words' });
}
