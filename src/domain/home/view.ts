// What a home is told of a device by the device's object: what was reported and what became of the newest command. Never what was asked.
import { knownProperties, positionSchema, type Position } from '../../protocol/mqtt.ts';
import type { CommandState } from '../../protocol/vocabulary.ts';
import type { Actor } from '../access.ts';
import { describeCommand, type Command } from '../device/commands/command-life.ts';
import type { DeviceState } from '../device/core/state.ts';
import { refuseUnless } from '../device/ownership/sharing.ts';
import { toIso } from '../time.ts';

/** `reason` is null without a failure. `command`: as text, for people. */
export type HomeOutcome = { state: CommandState | 'refused'; reason: string | null; command: string; time: string };

export type HomeView = {
  isOnline: boolean;
  controlMode: string;
  mayControl: boolean;
  /** Something else sees whether the device is on or off. */
  hasActual: boolean;
  position: Position | null;
  angle: number | null;
  rssi: number | null;
  actual: 'on' | 'off' | null;
  outcome: HomeOutcome | null;
};

/** @param newest of the device's commands */
export function viewHome(state: DeviceState, newest: Command | undefined, actor: Actor, nowMs: number): HomeView {
  const { identity, presence, properties, witness } = state;
  const values = new Map(properties.values.map(([name, value]) => [name, value]));
  const integerOf = (name: 'angle' | 'wifi_rssi') => knownProperties[name].safeParse(values.get(name)).data ?? null;
  const actual = witness.actual?.value;
  const { isOnline } = presence.connection;
  return {
    isOnline: isOnline && !identity.isDisabled,
    controlMode: identity.controlMode,
    mayControl: refuseUnless(state, actor, 'control') === undefined,
    hasActual: witness.settings !== null && witness.settings.expect !== 'pressed',
    position: positionSchema.safeParse(values.get('position')).data ?? null,
    angle: integerOf('angle'),
    rssi: integerOf('wifi_rssi'),
    actual: actual === 'on' || actual === 'off' ? actual : null,
    outcome: newest === undefined ? null : outcomeOf(newest, isOnline, nowMs),
  };
}

function outcomeOf(command: Command, isOnline: boolean, nowMs: number): HomeOutcome {
  const { acceptedAtMs, params } = command;
  const text = Object.entries(params).map(([name, value]) => (name === 'action' ? value : `${name} ${value}`));
  return { ...describeCommand(command, isOnline, nowMs), command: text.join(' '), time: toIso(acceptedAtMs) };
}
