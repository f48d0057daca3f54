// Slice: the devices for which this one is the witness, and what its reports last showed them. It tells a watcher when a condition
// becomes true or false, and each reading while a command of the watcher is under way. Who set the watcher must be allowed to read.
import { inPerson } from '../../access.ts';
import { accept, refuse, refused } from '../../refusal.ts';
import { minuteMs } from '../../time.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import type { PropertyReport } from '../messages/properties.ts';
import { refuseUnless } from '../ownership/sharing.ts';
import { readingOf, type Condition, type Reading } from './witness.ts';

type Watcher = Condition & {
  deviceId: string;
  userId: number;
  last: Reading | null;
  /** Each reading is told until then. */
  untilMs: number;
};

const maxWatchers = 8;
const saveReadingEveryMs = 2 * minuteMs;

export const watchersSlice: Slice<readonly Watcher[]> = {
  initial: [],
  row: 'own',
  isWorthSaving: ({ watchers: saved }, { watchers }) =>
    saved.length !== watchers.length ||
    watchers.some(({ last, ...watcher }, index) => {
      const { last: formerLast, ...former } = saved[index] ?? { last: null };
      if (JSON.stringify(former) !== JSON.stringify(watcher) || formerLast?.isTrue !== last?.isTrue) return true;
      return (last?.atMs ?? 0) - (formerLast?.atMs ?? 0) >= saveReadingEveryMs;
    }),
  onNewOwner: 'forget',
};

export const setWatcher: Handler<'watcher_set'> = (state, { actor, deviceId, condition }, { effects }) => {
  const others = state.watchers.filter((watcher) => watcher.deviceId !== deviceId);
  if (others.length >= maxWatchers) {
    // One that does not watch any more says so, and makes room for the next time.
    for (const { deviceId: other, last } of others)
      if (last !== null) effects.push({ kind: 'tell_watcher', deviceId: other, reading: last });
    return refused(state, { kind: 'limit_reached', limit: { name: 'watchersPerDevice', max: maxWatchers } });
  }
  const [, value, atMs] = state.properties.values.find(([name]) => name === condition.property) ?? [];
  const last = value === undefined || atMs === undefined ? null : (readingOf(condition, value, atMs) ?? null);
  const watcher = { ...condition, deviceId, userId: actor.userId, last, untilMs: 0 };
  return { state: { ...state, watchers: [...others, watcher] }, result: accept(null) };
};

/** A watcher asks for the last reading, and to hear of each until then. */
export const readForWatcher: Handler<'reading_asked'> = (state, { deviceId, untilMs }) => {
  const watcher = state.watchers.find((other) => other.deviceId === deviceId);
  if (watcher === undefined) return refused(state, { kind: 'not_found', what: 'witness' });
  const refusal = refuseUnless(state, inPerson(watcher.userId), 'readReports');
  if (refusal !== undefined) return { state: without(state, deviceId), result: refuse(refusal) };
  const armed = { ...watcher, untilMs: Math.max(untilMs, watcher.untilMs) };
  return { state: replace(state, armed), result: accept(watcher.last) };
};

/** The device does not watch this one any more. */
export const endWatcher: Reporter<'watcher_ended'> = (state, { deviceId }) => without(state, deviceId);

export function tellWatchers(
  state: DeviceState,
  { reported }: PropertyReport,
  atMs: number,
  { nowMs, effects }: Decision,
): DeviceState {
  return state.watchers.reduce((next, watcher) => {
    const { deviceId, userId, property, last, untilMs } = watcher;
    const value = reported.get(property);
    if (value === undefined) return next;
    if (refuseUnless(state, inPerson(userId), 'readReports') !== undefined) return without(next, deviceId);
    const read = readingOf(watcher, value, atMs);
    if (read === undefined) return next;
    const sinceMs = read.isTrue === last?.isTrue ? (last.sinceMs ?? last.atMs) : atMs;
    const reading = { ...read, sinceMs: Math.min(sinceMs, atMs) };
    if (reading.isTrue !== last?.isTrue || nowMs <= untilMs) effects.push({ kind: 'tell_watcher', deviceId, reading });
    // An older one that was held up on its way is told, and does not replace a newer one.
    return atMs < (last?.atMs ?? 0) ? next : replace(next, { ...watcher, last: reading });
  }, state);
}

function replace(state: DeviceState, watcher: Watcher): DeviceState {
  const watchers = state.watchers.map((other) => (other.deviceId === watcher.deviceId ? watcher : other));
  return { ...state, watchers };
}

function without(state: DeviceState, deviceId: string): DeviceState {
  return { ...state, watchers: state.watchers.filter((watcher) => watcher.deviceId !== deviceId) };
}
