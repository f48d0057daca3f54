// The state of one device: what a slice of it is, the list of its slices, and what goes over that list: reading, saving, the
// alarm, a change of owner. Each slice is one constant in the file of its subject. Only decide.ts makes a new state. Rows
// written are what a device costs; what is not worth one may be lost with the object.
import { isJsonObject } from '../../json.ts';
import { isKept } from '../commands/command-life.ts';
import { commandsSlice, maxOpen } from '../commands/commands.ts';
import { firmwareSlice } from '../firmware/updates.ts';
import { guestLinksSlice } from '../commands/guest-links.ts';
import { coalescedSlice } from '../messages/coalescing.ts';
import { deduplicationSlice } from '../messages/deduplication.ts';
import { lastRejectedSlice } from '../messages/messages.ts';
import { propertiesSlice } from '../messages/properties.ts';
import { arrivalSlice } from '../ownership/arrival.ts';
import { credentialsSlice } from '../ownership/credentials.ts';
import { identitySlice, ownershipSlice } from '../ownership/ownership.ts';
import { sharingSlice } from '../ownership/sharing.ts';
import { presenceSlice, resolutionOf, rulesOf, withConnection } from '../presence/announcements.ts';
import { directSlice } from '../presence/sessions.ts';
import { inactivityDueAtMs, silenceAllowedMs } from '../presence/presence.ts';
import { projectionSlice, recordCheckSlice } from '../presence/projection.ts';
import { subscriptionsSlice } from '../messages/subscriptions.ts';
import { leaseSlice } from '../times/lease.ts';
import { runsSlice } from '../times/ledger.ts';
import { schedulesSlice } from '../times/schedules.ts';
import { samplesSlice, seriesSlice } from '../usage/series.ts';
import { usageSlice } from '../usage/usage.ts';
import { watchersSlice } from '../witness/watchers.ts';
import { witnessSlice } from '../witness/witness.ts';
import { alertsSlice } from './alerts.ts';
import { budgetsSlice, countsSlice } from './counts.ts';
import { newHistorySlice } from './history.ts';
import { noticesSlice } from './notices.ts';
import { outgoingSlice } from './outgoing.ts';
import type { PresenceLimits } from '../presence/presence-times.ts';

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
  /** What another deployment gets of it with an export; absent: all. `stay`: nothing, it belongs to a connection here. */
  onMove?: 'stay' | ((state: DeviceState) => Value);
};

type AlarmSlice = {
  setAtMs: number | null;
  /** It is set for the device's inactivity, and so records when its last message was. */
  isForInactivity: boolean;
};

/** If inactivity is watched, the alarm also records the device's last message: that costs no second row. */
const alarmSlice: Slice<AlarmSlice> = {
  initial: { setAtMs: null, isForInactivity: false },
  row: 'activity',
  read: ({ isForInactivity }) => ({ setAtMs: null, isForInactivity }),
  isWorthSaving: (saved, state, nowMs) => {
    if (saved.alarm.isForInactivity !== state.alarm.isForInactivity) return true;
    const lastOf = ({ presence }: DeviceState) => presence.connection.lastOnlineAtMs ?? 0;
    return lastOf(state) - lastOf(saved) >= resolutionOf(state) && !isRecordedByAlarm(state, nowMs);
  },
  onNewOwner: 'keep',
  onMove: 'stay',
};

const slices = {
  identity: identitySlice,
  ownership: ownershipSlice,
  credentials: credentialsSlice,
  recordCheck: recordCheckSlice,
  presence: presenceSlice,
  direct: directSlice,
  properties: propertiesSlice,
  subscriptions: subscriptionsSlice,
  deduplication: deduplicationSlice,
  alarm: alarmSlice,
  sharing: sharingSlice,
  arrival: arrivalSlice,
  guests: guestLinksSlice,
  counts: countsSlice,
  lastRejected: lastRejectedSlice,
  commands: commandsSlice,
  schedules: schedulesSlice,
  runs: runsSlice,
  lease: leaseSlice,
  witness: witnessSlice,
  watchers: watchersSlice,
  projection: projectionSlice,
  coalesced: coalescedSlice,
  budgets: budgetsSlice,
  newHistory: newHistorySlice,
  notices: noticesSlice,
  outgoing: outgoingSlice,
  alerts: alertsSlice,
  usage: usageSlice,
  samples: samplesSlice,
  series: seriesSlice,
  firmware: firmwareSlice,
};

type Slices = typeof slices;
type SliceName = keyof Slices;

export type DeviceState = { settings: DeviceSettings } & { [Name in SliceName]: Slices[Name]['initial'] };

export type DeviceSettings = {
  /** The broker reports connects and disconnects; otherwise inactivity is watched. */
  reportsConnections: boolean;
  keepAliveSeconds: number;
  /** The broker asks at each login; otherwise it was given the credentials. */
  asksAtLogin: boolean;
  limits: DeviceLimits;
};

type DeviceLimits = PresenceLimits &
  Record<'membersPerDevice' | 'guestLinksPerDevice' | 'deviceMessagesPerMinute', number>;

const sliceNames = Object.keys(slices) as SliceName[];
const sharedRows = ['administration', 'activity'];
const sliceOf = (name: SliceName): Slice<unknown> => slices[name];
const saveSlice = (name: SliceName, value: unknown): unknown => sliceOf(name).save?.(value) ?? value;
const rowOf = (name: SliceName): string => (slices[name].row === 'own' ? name : slices[name].row);
const isMoved = (name: SliceName): boolean => sliceOf(name).onMove !== 'stay' && slices[name].row !== 'none';

export type SavedRows = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

export function newState(settings: DeviceSettings): DeviceState {
  return { settings, ...makeSlices((name) => sliceOf(name).initial) };
}

/** A member that a newer version added, or a slice that it did, is at its initial value. */
export function readState(settings: DeviceSettings, rows: SavedRows): DeviceState {
  const read = (name: SliceName) => {
    const slice = sliceOf(name);
    const saved = rows[rowOf(name)]?.[name];
    if (saved === undefined) return slice.initial;
    const whole = isJsonObject(saved) && isJsonObject(slice.initial) ? { ...slice.initial, ...saved } : saved;
    return slice.read?.(whole) ?? whole;
  };
  return { settings, ...makeSlices(read) };
}

/** What an export has of the device, by slice. */
export function slicesToMove(state: DeviceState): Record<string, unknown> {
  const move = (name: SliceName): [string, unknown] => {
    const { onMove } = sliceOf(name);
    return [name, saveSlice(name, typeof onMove === 'function' ? onMove(state) : state[name])];
  };
  return Object.fromEntries(sliceNames.filter(isMoved).map(move));
}

/** Undefined if a slice is unknown here: the export comes from a newer version. */
export function readMoved(settings: DeviceSettings, moved: Readonly<Record<string, unknown>>): DeviceState | undefined {
  if (!Object.keys(moved).every((name) => Object.hasOwn(slices, name) && isMoved(name as SliceName))) return undefined;
  return readState(settings, Object.fromEntries(sliceNames.map((name) => [rowOf(name), moved])));
}

export function rowsToSave(saved: DeviceState | undefined, state: DeviceState, nowMs: number): SavedRows {
  const before = saved ?? newState(state.settings);
  const changed = sliceNames.filter(
    (name) => sliceOf(name).isWorthSaving?.(before, state, nowMs) ?? before[name] !== state[name],
  );
  const names = new Set([...(saved === undefined ? sharedRows : []), ...changed.map(rowOf)]);
  names.delete('none');
  return Object.fromEntries([...names].map((row) => [row, rowNamed(row, state)]));
}

export function rowNamed(row: string, state: DeviceState): SavedRows[string] {
  const names = sliceNames.filter((name) => rowOf(name) === row);
  return Object.fromEntries(names.map((name) => [name, saveSlice(name, state[name])]));
}

export function savedState(saved: DeviceState | undefined, state: DeviceState, rows: SavedRows): DeviceState {
  if (saved === undefined) return state;
  const isFollowing = (name: SliceName) => rowOf(name) === 'none' || Object.hasOwn(rows, rowOf(name));
  return { settings: state.settings, ...makeSlices((name) => (isFollowing(name) ? state : saved)[name]) };
}

/** Drops what storage alone keeps. `isComplete` is false if storage has more open commands. */
export function afterWrite(state: DeviceState, nowMs: number): { state: DeviceState; isComplete: boolean } {
  const { loaded, inFlight } = state.commands;
  const open = loaded.filter((command) => isKept(command, nowMs)).slice(0, maxOpen);
  const isComplete = open.length === loaded.length || loaded.length < maxOpen;
  return { state: { ...state, commands: { loaded: open, records: [], inFlight }, newHistory: [] }, isComplete };
}

/** What every slice does with a new owner. Who that is, the identity slice is not told here. */
export function forNewOwner(state: DeviceState, newOwnerId: number): DeviceState {
  const passOn = (name: SliceName) => {
    const { onNewOwner, initial } = sliceOf(name);
    if (onNewOwner === 'keep') return state[name];
    return onNewOwner === 'forget' ? initial : onNewOwner(state, newOwnerId);
  };
  return { settings: state.settings, ...makeSlices(passOn) };
}

export function adoptAlarm(state: DeviceState, setAtMs: number | null, nowMs: number): DeviceState {
  const adopted = { ...state, alarm: { ...state.alarm, setAtMs } };
  const { connection } = state.presence;
  if (setAtMs === null || !state.alarm.isForInactivity || !connection.isOnline) return adopted;
  const seenAtMs = Math.min(setAtMs - silenceAllowedMs(connection, rulesOf(state, nowMs)), nowMs);
  return seenAtMs <= (connection.lastOnlineAtMs ?? 0) ? adopted : withConnection(adopted, { lastOnlineAtMs: seenAtMs });
}

/** Leaves an alarm that fires too early: deleting it writes a row, an idle wake-up does not. */
export function planAlarm(state: DeviceState, nowMs: number): DeviceState {
  const { setAtMs, isForInactivity } = state.alarm;
  const inactiveAtMs = inactivityDueAtMs(state.presence.connection, rulesOf(state, nowMs)) ?? Infinity;
  const otherAtMs = slicesDueAtMs(state, nowMs);
  const dueAtMs = Math.min(inactiveAtMs, otherAtMs);
  if (dueAtMs === Infinity) return state;
  const willBeForInactivity = inactiveAtMs <= otherAtMs;
  const isEarlier = setAtMs === null || setAtMs > dueAtMs;
  const isBehind = willBeForInactivity && isForInactivity && inactiveAtMs - (setAtMs ?? 0) >= resolutionOf(state);
  if (!isEarlier && !isBehind) return state;
  return { ...state, alarm: { setAtMs: dueAtMs, isForInactivity: willBeForInactivity } };
}

/** Whether the alarm in storage records the last message, so that the message needs no row. */
function isRecordedByAlarm(state: DeviceState, nowMs: number): boolean {
  const inactiveAtMs = inactivityDueAtMs(state.presence.connection, rulesOf(state, nowMs));
  if (inactiveAtMs === null) return true;
  return inactiveAtMs <= slicesDueAtMs(state, nowMs) && state.alarm.isForInactivity;
}

function slicesDueAtMs(state: DeviceState, nowMs: number): number {
  return Math.min(...sliceNames.map((name) => sliceOf(name).dueAtMs?.(state, nowMs) ?? Infinity));
}

function makeSlices(valueOf: (name: SliceName) => unknown): Omit<DeviceState, 'settings'> {
  return Object.fromEntries(sliceNames.map((name) => [name, valueOf(name)])) as Omit<DeviceState, 'settings'>;
}
