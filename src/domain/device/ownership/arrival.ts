// Slice: whether the device was imported from another deployment and has not connected here. Until it connects, the other
// deployment acts for it, too: no schedule runs here. Decides nothing about what is moved (core/state.ts).
import type { EventOf } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { compareProjection } from '../presence/projection.ts';
import { compareMembers } from './sharing.ts';

/** More events than the other deployment notes until the device leaves it: no number stands for two events. */
export const eventsBeforeArrival = 10_000;

export const arrivalSlice: Slice<{ isExpected: boolean }> = {
  initial: { isExpected: false },
  row: 'own',
  onNewOwner: 'keep',
  onMove: 'stay',
};

/** The record in D1 was exported at another moment: if it has another version, it is written again. */
export function importDevice(event: EventOf<'record_imported'>): DeviceState {
  const { state, projectionVersion, membersVersion } = event;
  const expected = { ...state, arrival: { isExpected: true } };
  return compareMembers(compareProjection(expected, projectionVersion), membersVersion);
}

export function arrive(state: DeviceState): DeviceState {
  if (!state.arrival.isExpected || !state.presence.connection.isOnline) return state;
  const { outgoing } = state;
  const last = outgoing.last + eventsBeforeArrival;
  return { ...state, arrival: arrivalSlice.initial, outgoing: { ...outgoing, last } };
}
