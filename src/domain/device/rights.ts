// Who may do what with the device, by the table of access.ts.
import { refusalOf, type Actor, type DeviceAction } from '../access.ts';
import type { Refusal } from '../refusal.ts';
import { ownershipOf } from './sharing.ts';
import type { DeviceState } from './state.ts';

export function refuseUnless(state: DeviceState, actor: Actor, action: DeviceAction): Refusal | undefined {
  return refusalOf(ownershipOf(state), actor, action);
}
