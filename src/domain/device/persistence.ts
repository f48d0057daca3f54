// Which part of a state is worth a row now, compared with what storage has: rows written are what a device costs. What is
// not worth one is lost with the object, or is saved with the next row.
import { isRecordedByAlarm } from './alarm.ts';
import { isOpen } from './command-life.ts';
import { maxOpen } from './commands.ts';
import { isEdgeWorthSaving } from './edge-session.ts';
import { areActivationsWorthSaving } from './ownership.ts';
import { areFloodsWorthSaving } from './floods.ts';
import { noGuestLinks } from './guest-links.ts';
import { isRejectedWorthSaving } from './last-rejected.ts';
import { areRefusalsWorthSaving } from './login-refusals.ts';
import { resolutionOf } from './presence.ts';
import { arePropertiesWorthSaving, saveProperties, type SavedProperties } from './properties.ts';
import { isRecordCheckWorthSaving } from './record-check.ts';
import { notShared } from './sharing.ts';
import type { DeviceState } from './state.ts';

/** Slices share rows by how often they change. */
export type SavedRows = {
  administration: Pick<DeviceState, 'identity' | 'ownership' | 'credentials' | 'recordCheck'>;
  activity: Pick<DeviceState, 'presence' | 'edge' | 'subscriptions' | 'deduplication'> & {
    properties: SavedProperties;
    isAlarmForInactivity: boolean;
  };
  login_refusals: Pick<DeviceState, 'loginRefusals'>;
  floods: Pick<DeviceState, 'floods'>;
  sharing: Pick<DeviceState, 'sharing'>;
  guest_links: Pick<DeviceState, 'guests'>;
  activations: Pick<DeviceState, 'activations'>;
  last_rejected: Pick<DeviceState, 'lastRejected'>;
};

/** @param saved the state as storage has it; undefined where it has none */
export function rowsToSave(saved: DeviceState | undefined, state: DeviceState, nowMs: number): Partial<SavedRows> {
  const { identity, ownership, credentials, recordCheck } = state;
  const { loginRefusals, floods, activations, sharing, guests, lastRejected } = state;
  const isAdministrationNew =
    saved?.identity !== identity ||
    saved.ownership !== ownership ||
    saved.credentials !== credentials ||
    isRecordCheckWorthSaving(saved.recordCheck, recordCheck);
  const isActivityNew = saved === undefined || isActivityWorthSaving(saved, state, nowMs);
  return {
    ...(isAdministrationNew && { administration: { identity, ownership, credentials, recordCheck } }),
    ...(isActivityNew && { activity: activityOf(state) }),
    ...(areRefusalsWorthSaving(saved?.loginRefusals ?? [], loginRefusals) && { login_refusals: { loginRefusals } }),
    ...(areFloodsWorthSaving(saved?.floods ?? [], floods) && { floods: { floods } }),
    ...((saved?.sharing ?? notShared) !== sharing && { sharing: { sharing } }),
    ...((saved?.guests ?? noGuestLinks) !== guests && { guest_links: { guests } }),
    ...(areActivationsWorthSaving(saved?.activations ?? [], activations) && { activations: { activations } }),
    ...(isRejectedWorthSaving(saved?.lastRejected ?? null, lastRejected) && { last_rejected: { lastRejected } }),
  };
}

/** The state as storage has it once `rows` are written. */
export function savedState(saved: DeviceState | undefined, state: DeviceState, rows: Partial<SavedRows>): DeviceState {
  if (saved === undefined) return state;
  const { presence, edge, properties, subscriptions, deduplication, alarm } =
    rows.activity === undefined ? saved : state;
  const { identity, ownership, credentials, recordCheck } = rows.administration === undefined ? saved : state;
  const { loginRefusals } = rows.login_refusals === undefined ? saved : state;
  const { floods } = rows.floods === undefined ? saved : state;
  const { sharing } = rows.sharing === undefined ? saved : state;
  const { guests } = rows.guest_links === undefined ? saved : state;
  const { activations } = rows.activations === undefined ? saved : state;
  const { lastRejected } = rows.last_rejected === undefined ? saved : state;
  const { settings, commands, newHistory, coalesced, budgets, projection } = state;
  // Named one by one, so that a new slice does not compile until it is saved or named here.
  return {
    settings,
    coalesced,
    budgets,
    projection,
    commands,
    newHistory,
    identity,
    ownership,
    credentials,
    recordCheck,
    presence,
    edge,
    properties,
    subscriptions,
    deduplication,
    alarm,
    loginRefusals,
    floods,
    sharing,
    guests,
    activations,
    lastRejected,
  };
}

/**
 * The state after its write: what storage alone has to keep is dropped from memory. Where there were more open commands
 * than are kept here, `isComplete` is false and storage is to be asked again.
 */
export function afterWrite(state: DeviceState, nowMs: number): { state: DeviceState; isComplete: boolean } {
  const { loaded, inFlight } = state.commands;
  const open = loaded.filter((command) => isOpen(command, nowMs)).slice(0, maxOpen);
  const isComplete = open.length === loaded.length || loaded.length < maxOpen;
  return { state: { ...state, commands: { loaded: open, records: [], inFlight }, newHistory: [] }, isComplete };
}

function activityOf(state: DeviceState): SavedRows['activity'] {
  const { presence, edge, subscriptions, deduplication, alarm } = state;
  const properties = saveProperties(state.properties);
  return { presence, edge, properties, subscriptions, deduplication, isAlarmForInactivity: alarm.isForInactivity };
}

function isActivityWorthSaving(saved: DeviceState, state: DeviceState, nowMs: number): boolean {
  if (saved.subscriptions !== state.subscriptions || saved.deduplication.failed !== state.deduplication.failed)
    return true;
  if (isEdgeWorthSaving(saved.edge, state.edge)) return true;
  if (saved.alarm.isForInactivity !== state.alarm.isForInactivity) return true;
  return arePropertiesWorthSaving(saved.properties, state.properties) || isPresenceWorthSaving(saved, state, nowMs);
}

function isPresenceWorthSaving(saved: DeviceState, state: DeviceState, nowMs: number): boolean {
  const [before, after] = [saved.presence, state.presence];
  if (before === after) return false;
  const isSliceNew =
    before.transitions !== after.transitions ||
    before.waiting !== after.waiting ||
    before.announcements !== after.announcements ||
    before.projectionVersion !== after.projectionVersion ||
    before.isProjectionBehind !== after.isProjectionBehind;
  if (isSliceNew) return true;
  const names = Object.keys(after.connection) as (keyof typeof after.connection)[];
  if (names.some((name) => name !== 'lastOnlineAtMs' && before.connection[name] !== after.connection[name]))
    return true;
  // The time of the last message alone: the alarm records it where it is set for inactivity.
  const unsavedMs = (after.connection.lastOnlineAtMs ?? 0) - (before.connection.lastOnlineAtMs ?? 0);
  return unsavedMs >= resolutionOf(state) && !isRecordedByAlarm(state, nowMs);
}
