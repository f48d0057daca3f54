// Slice: which relay shards want the messages of all devices of each user who may follow this one, as the users' directories
// told it. What is not known has to be asked for before something is pushed; that is the shell's.
import { readersOf } from './sharing.ts';
import type { DeviceState, KnownFleet } from './state.ts';

/** A shard where the user has subscribed to all devices. `registrationId`: of its last registration. */
export type FleetRegistration = { userId: number; shard: string; registrationId: number };

/** What a user's directory answers a device. */
export type FleetAnswer = {
  listeners: KnownFleet['listeners'];
  forMs: number;
  isTold: boolean;
};

/** Of those of `readers` who may follow the device still, the ones of whom it is to be asked. */
export function unknownFleets(state: DeviceState, readers: readonly number[], nowMs: number): number[] {
  const unknown = readers.filter((userId) => !isKnown(state, userId, nowMs));
  if (unknown.length === 0) return unknown;
  const present = readersOf(state);
  return unknown.filter((userId) => present.includes(userId));
}

/** As far as known. An outdated answer serves on where there is no other: a shard without sockets says so. */
export function fleetsOf({ fleets }: DeviceState, readers: readonly number[]): FleetRegistration[] {
  return fleets
    .filter(({ userId }) => readers.includes(userId))
    .flatMap(({ userId, listeners }) => listeners.map((listener) => ({ userId, ...listener })));
}

export function noteFleet(
  state: DeviceState,
  { userId, askedAtMs, answer }: { userId: number; askedAtMs: number; answer: FleetAnswer },
): DeviceState {
  const { listeners, forMs, isTold } = answer;
  const { fleetDirectories: directories } = state.settings.limits;
  return withFleet(state, userId, (former) => ({
    // A registration may have come before the answer, which is older then.
    ...{ userId, listeners: listeners.reduce(withListener, former?.listeners ?? []) },
    ...{ askedAtMs, forMs, isTold, directories },
  }));
}

/** A directory tells of a new registration. False where the user may not follow the device. */
export function noteFleetListener(
  state: DeviceState,
  { userId, shard, registrationId }: FleetRegistration,
): { state: DeviceState; result: boolean } {
  if (!readersOf(state).includes(userId)) return { state, result: false };
  const next = withFleet(state, userId, (former) => ({
    ...(former ?? { userId, askedAtMs: 0, forMs: 0, isTold: false, directories: 0 }),
    listeners: withListener(former?.listeners ?? [], { shard, registrationId }),
  }));
  return { state: next, result: true };
}

/** The shard has no such socket of the user; it stays where it registered again since. */
export function dropFleetListener(
  state: DeviceState,
  { userId, shard, registrationId }: FleetRegistration,
): DeviceState {
  const known = state.fleets.find((one) => one.userId === userId);
  const left = known?.listeners.filter((one) => one.shard !== shard || one.registrationId !== registrationId);
  if (known === undefined || left?.length === known.listeners.length) return state;
  return withFleet(state, userId, () => ({ ...known, listeners: left ?? [] }));
}

/** The directories may have been restored without the device, or the device without them: they are asked again. */
export function forgetFleets(state: DeviceState): DeviceState {
  return state.fleets.length === 0 ? state : { ...state, fleets: [] };
}

/** Who may not follow the device any more is asked for again should that change. */
export function forgetFormerReaders(state: DeviceState): DeviceState {
  const readers = readersOf(state);
  const fleets = state.fleets.filter(({ userId }) => readers.includes(userId));
  return fleets.length === state.fleets.length ? state : { ...state, fleets };
}

/** What was leased ends before a row would be of use. */
export function fleetsToSave(fleets: readonly KnownFleet[]): KnownFleet[] {
  return fleets.filter(({ isTold }) => isTold);
}

export function areFleetsWorthSaving(saved: readonly KnownFleet[], fleets: readonly KnownFleet[]): boolean {
  const [before, after] = [fleetsToSave(saved), fleetsToSave(fleets)];
  return before.length !== after.length || after.some((one) => !before.includes(one));
}

/** Not from a time that is still to come: the clock was set back since. */
function isKnown({ fleets, settings }: DeviceState, userId: number, nowMs: number): boolean {
  const known = fleets.find((one) => one.userId === userId);
  if (known?.directories !== settings.limits.fleetDirectories) return false;
  return known.askedAtMs <= nowMs && nowMs < known.askedAtMs + known.forMs;
}

function withListener(
  listeners: KnownFleet['listeners'],
  added: KnownFleet['listeners'][number],
): KnownFleet['listeners'] {
  const former = listeners.find(({ shard }) => shard === added.shard);
  if (former !== undefined && former.registrationId >= added.registrationId) return listeners;
  return [...listeners.filter((one) => one !== former), added];
}

function withFleet(
  state: DeviceState,
  userId: number,
  change: (former: KnownFleet | undefined) => KnownFleet,
): DeviceState {
  const former = state.fleets.find((one) => one.userId === userId);
  return { ...state, fleets: [...state.fleets.filter((one) => one !== former), change(former)] };
}
