// What a virtual switch does with a command, in the page and in the terminal: pure rules; time and messages belong to
// virtual-switch.ts and to dev/virtual-device.ts.
export type Position = 'up' | 'middle' | 'down';

export type SwitchState = { position: Position; angle: number };
/** `backAfterMs` is set when the switch returns to where it was. */
export type SwitchMove = { state: SwitchState; backAfterMs?: number };

const angles: Record<Position, number> = { up: 180, middle: 90, down: 0 };
const nextPosition: Record<Position, Position> = { up: 'middle', middle: 'down', down: 'up' };
const defaultPulseMs = 500;

export const initialState: SwitchState = stateAt('up');

/** undefined for parameters that stock firmware does not know; it ignores them. */
export function moveSwitch(state: SwitchState, params: Record<string, unknown>): SwitchMove | undefined {
  const { action, position, duration, angle } = params;
  if (action === 'toggle') return { state: stateAt(isPosition(position) ? position : nextPosition[state.position]) };
  if (action === 'pulse') {
    const pressed = state.position === 'down' ? 'up' : 'down';
    return { state: stateAt(pressed), backAfterMs: typeof duration === 'number' ? duration : defaultPulseMs };
  }
  // A wake-up trigger moves no lever.
  if (action === 'trigger') return { state };
  if (typeof angle === 'number') return { state: { position: nearestPosition(angle), angle } };
  if (typeof params['switch'] === 'boolean') return { state: stateAt(params['switch'] ? 'up' : 'down') };
  return undefined;
}

function stateAt(position: Position): SwitchState {
  return { position, angle: angles[position] };
}

function isPosition(value: unknown): value is Position {
  return typeof value === 'string' && value in angles;
}

function nearestPosition(angle: number): Position {
  if (angle >= 135) return 'up';
  return angle >= 45 ? 'middle' : 'down';
}
