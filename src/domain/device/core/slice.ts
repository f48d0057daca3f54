// What a slice of a device's state is. Each slice is one constant in the file of its subject. core/state.ts lists them;
// reading, saving, the alarm and a change of owner go over that list.
import type { DeviceState } from './state.ts';

/** `Saved`: the form of `Value` in storage. */
export type Slice<Value, Saved = Value> = {
  initial: Value;
  /** A row is written whole: slices that change as often share one. `none`: in memory, or in tables of its own. */
  row: 'administration' | 'activity' | 'own' | 'none';
  save?(value: Value): Saved;
  read?(saved: Saved): Value;
  /** Whether the change since `saved` is worth a row; if absent, every change is. A change without a row may be lost. */
  isWorthSaving?(saved: DeviceState, state: DeviceState, nowMs: number): boolean;
  dueAtMs?(state: DeviceState, nowMs: number): number;
  /** What a change of owner does to it. `forget`: it is initial again. */
  onNewOwner: 'keep' | 'forget' | ((state: DeviceState, newOwnerId: number) => Value);
};
