// Commands without anything to type, for guest links and scenes, by what a product can do.
import type { CommandBody } from '@latchwork/client';
import type { Device } from './device.ts';

export type CommandName = 'up' | 'middle' | 'down' | 'pulse' | 'trigger' | 'right' | 'half' | 'left';
export type Mode = Device['product']['controlMode'];

/** Their words are `owningTexts.guestLinks.commands`. */
export const commands: Record<CommandName, CommandBody> = {
  up: { action: 'toggle', position: 'up' },
  middle: { action: 'toggle', position: 'middle' },
  down: { action: 'toggle', position: 'down' },
  pulse: { action: 'pulse' },
  trigger: { action: 'trigger' },
  right: { angle: 0 },
  half: { angle: 90 },
  left: { angle: 180 },
};
export const commandsOf: Record<Mode, readonly CommandName[]> = {
  toggle: ['up', 'middle', 'down'],
  pulse: ['pulse', 'trigger'],
  dimmer: ['right', 'half', 'left'],
  readonly: [],
  generic: ['trigger', 'pulse', 'up', 'middle', 'down'],
};
