// Commands given on the board, by device: what became of them is shown on the tiles, also after the list was filtered or left.
import { runCommand, type Command, type ControlBody } from '@latchwork/client';
import { effect, signal, type Signal } from '@preact/signals';
import { isSignedIn, session } from '../state/session.ts';

/** `command` is null until the service has it. */
export type Press = { body: ControlBody; command: Command | null; error: unknown };

const presses = new Map<string, Signal<Press | null>>();
effect(() => {
  if (!isSignedIn.value) presses.clear();
});

/** The last command of this page to the device. */
export function pressOf(deviceId: string): Signal<Press | null> {
  const present = presses.get(deviceId) ?? signal(null);
  presses.set(deviceId, present);
  return present;
}

/** Sends a command and follows it to its end. A newer one takes its place on the tile. */
export async function press(deviceId: string, body: ControlBody): Promise<void> {
  const shown = pressOf(deviceId);
  let mine: Press = { body, command: null, error: null };
  shown.value = mine;
  const change = (changed: Partial<Press>): void => {
    if (shown.peek() !== mine) return;
    mine = { ...mine, ...changed };
    shown.value = mine;
  };
  try {
    await runCommand(session().api, deviceId, body, {
      until: 'confirmed',
      onCommand: (command) => change({ command }),
    });
  } catch (error) {
    change({ error });
  }
}
