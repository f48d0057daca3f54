// What a client of a home publishes for a device, as the control that it means (contract 4.3). Pure.
import type { ControlParams } from '../control-command.ts';
import { accept, refuse, type Outcome } from '../refusal.ts';
import type { HomeAction } from './topics.ts';

/** A command, or the state that the witness has to see. */
type Order = { params: ControlParams } | { ensures: 'on' | 'off' };

const positions = ['up', 'middle', 'down'];

export function readOrder(action: Exclude<HomeAction, 'birth'>, payload: string | undefined): Outcome<Order> {
  const text = payload ?? '';
  if (action === 'press') {
    if (text === 'pulse' || text === 'trigger') return accept({ params: { action: text } });
  } else if (positions.includes(text)) {
    return accept({ params: { action: 'toggle', position: text } });
  } else if (text === 'on' || text === 'off') {
    return accept({ ensures: text });
  } else if (/^\d{1,3}$/.test(text) && Number(text) <= 180) {
    return accept({ params: { angle: Number(text) } });
  }
  return refuse({ kind: 'invalid_input', path: action, problem: 'is none of the documented words' });
}
