// Slice: how long the device was known to be on and off on the present day of its owner, what pressed it, and its changes. Counts when
// something changes: nothing is written because time passes. Time of which nothing is known is neither on nor off.
import type { usageValues } from '../../../protocol/vocabulary.ts';
import { fingerprint } from '../../fingerprint.ts';
import { hourMs, minuteMs, secondMs } from '../../time.ts';
import { dayAt, dayStart } from '../times/calendar.ts';
import { isScene } from '../commands/command-life.ts';
import type { Decision } from '../core/events.ts';
import { appendHistory } from '../core/history.ts';
import type { CommandEnd } from '../core/outgoing.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { markProjectionBehind } from '../presence/projection.ts';
import { closeSeries } from './series.ts';

type Value = (typeof usageValues)[number];
export type Presses = Record<'person' | 'key' | 'schedule' | 'scene' | 'hand', number>;

/** `day`: days from 1970 to its date. It begins where the day before ends, also if the zone has changed. */
export type Day = {
  day: number;
  zone: string;
  fromMs: number;
  toMs: number;
  onMs: number;
  offMs: number;
  presses: Presses;
  failures: number;
  /** Before the first, nothing is known. `isCut`: there were more. */
  changes: readonly [second: number, value: Value][];
  isCut: boolean;
};

export type UsageSlice = {
  today: Day;
  /** Since then the value is this; time before is counted. */
  value: Value;
  sinceMs: number;
  /** Days that D1 does not have, and the version of the projection that brings them. */
  untold: readonly Day[];
  toldVersion: number | null;
};

export const maxChanges = 200;
/** D1 was away for longer: the oldest are dropped. */
const maxUntold = 31;
/** Days end everywhere at once: they are told over these hours. */
const tellWithinMs = 3 * hourMs;
/** Later than this, no alarm of the platform is late: nothing ran the device. */
const watchedAfterMs = 2 * minuteMs;

const noPresses: Presses = { person: 0, key: 0, schedule: 0, scene: 0, hand: 0 };

export function emptyDay(day: number, zone: string, fromMs: number, toMs: number): Day {
  return { day, zone, fromMs, toMs, onMs: 0, offMs: 0, presses: noPresses, failures: 0, changes: [], isCut: false };
}

export const usageSlice: Slice<UsageSlice> = {
  initial: { today: emptyDay(0, 'UTC', 0, 0), value: 'unknown', sinceMs: 0, untold: [], toldVersion: null },
  row: 'activity',
  dueAtMs: (state) => {
    const { today, untold, toldVersion } = state.usage;
    if (untold.length > 0 && toldVersion === null) return today.fromMs + spreadOf(state);
    return hasContent(state) ? today.toMs + spreadOf(state) : Infinity;
  },
  onNewOwner: 'forget',
  // Of the time from then on, only where the device is connected something is known.
  onMove: ({ usage, presence }) => {
    const seenAtMs = Math.max(usage.sinceMs, presence.connection.lastOnlineAtMs ?? 0);
    return usage.value === 'unknown' ? usage : change(usage, Math.min(seenAtMs, usage.today.toMs), 'unknown');
  },
};

function spreadOf({ identity }: DeviceState): number {
  return Math.ceil((fingerprint(identity.deviceId) / 2 ** 53) * tellWithinMs);
}

function isEmpty({ changes, presses, failures }: Day): boolean {
  return changes.length + failures + sumOf(presses) === 0;
}

/** A day without any costs no row, and no alarm. */
function hasContent({ usage: { today }, samples, series }: DeviceState): boolean {
  return !isEmpty(today) || samples.length + series.length > 0;
}

/** In each decision. `watchedUntilMs`: when the alarm was due that has not fired, or fires now; null: the device sets none. */
export function noteUsage(
  before: DeviceState,
  state: DeviceState,
  ended: readonly CommandEnd[],
  watchedUntilMs: number | null,
  decision: Decision,
): DeviceState {
  const { nowMs } = decision;
  const zoneOf = () => zoneOfOwner(state, decision.webhooksOf);
  let { usage } = state;
  const closed: Day[] = [];
  const advanceTo = (toMs: number) => {
    const advanced = advance(usage, toMs, zoneOf);
    closed.push(...advanced.closed);
    return (usage = advanced.usage);
  };
  const move = (atMs: number, value: Value) => {
    if (value === usage.value) return;
    const toMs = Math.min(Math.max(atMs, usage.sinceMs), nowMs);
    usage = change(advanceTo(toMs), toMs, value);
  };
  const [was, is] = [before.presence.connection, state.presence.connection];
  const hasSlept = watchedUntilMs === null ? isSocketLost(state) : nowMs > watchedUntilMs + watchedAfterMs;
  if (hasSlept) move(was.lastOnlineAtMs ?? 0, 'unknown');
  const isAnotherTime = was.onlineSinceMs !== is.onlineSinceMs;
  if (was.isOnline && (isAnotherTime || !is.isOnline)) move(is.offlineAtMs ?? nowMs, 'unknown');
  const moved = Math.max(0, state.properties.positionChanges - before.properties.positionChanges);
  const positions = moved === 0 ? [] : state.properties.positions.slice(-moved);
  // A socket that is gone makes nothing known.
  const value = usage.value === 'unknown' && isSocketLost(state) ? 'unknown' : valueOf(state);
  if (value !== 'unknown' && !isWitnessed(state) && !hasSlept) {
    for (const { position, time } of positions) move(time, position === 'up' ? 'on' : 'off');
  }
  const seen = state.witness.actual !== before.witness.actual ? state.witness.actual?.atMs : undefined;
  move(hasSlept ? nowMs : (seen ?? (isAnotherTime && value !== 'unknown' ? is.onlineSinceMs : null) ?? nowMs), value);
  // The first position is no move.
  const byHand = nowMs < state.alerts.explainedUntilMs ? 0 : moved - (before.properties.positionChanges === 0 ? 1 : 0);
  const counts = ended.filter(({ command }) => !isScene(command.params));
  const isDue = byHand > 0 || counts.length > 0 || hasContent({ ...state, usage });
  if (nowMs >= usage.today.toMs && isDue) advanceTo(nowMs);
  if (byHand > 0) usage = press(usage, 'hand', byHand);
  for (const end of counts) usage = countEnd(usage, end);
  if (usage === state.usage) return tell(state, nowMs);
  return tell(closeSeries(closeDays({ ...state, usage }, closed), state.usage.today), nowMs);
}

function change(usage: UsageSlice, atMs: number, value: Value): UsageSlice {
  const { today } = countUntil(usage, atMs);
  const second = Math.floor((atMs - today.fromMs) / secondMs);
  const changes: Day['changes'] = [...today.changes, [second, value]];
  const isCut = changes.length > maxChanges;
  return { ...usage, value, sinceMs: atMs, today: { ...today, isCut, changes: changes.slice(0, maxChanges) } };
}

function press(usage: UsageSlice, cause: keyof Presses, times = 1): UsageSlice {
  const { presses } = usage.today;
  return { ...usage, today: { ...usage.today, presses: { ...presses, [cause]: presses[cause] + times } } };
}

function countEnd(usage: UsageSlice, { command, reached }: CommandEnd): UsageSlice {
  const { scheduleId, givenBy } = command;
  const giver = givenBy?.via === 'scene' ? 'scene' : givenBy?.withKey === true ? 'key' : 'person';
  if (reached === 'confirmed' || reached === 'acknowledged') return press(usage, scheduleId ? 'schedule' : giver);
  const isCertain = ['failed', 'undelivered'].includes(reached) || (reached === 'expired' && command.isAwaitingDevice);
  return isCertain ? { ...usage, today: { ...usage.today, failures: usage.today.failures + 1 } } : usage;
}

export const sumOf = (presses: Presses) => Object.values(presses).reduce((sum, times) => sum + times, 0);

/** In whole seconds, which add up to its length. */
export function secondsOf({ fromMs, toMs, onMs, offMs }: Day) {
  const seconds = Math.round((toMs - fromMs) / secondMs);
  const onSeconds = Math.min(seconds, Math.round(onMs / secondMs));
  const offSeconds = Math.min(seconds - onSeconds, Math.round(offMs / secondMs));
  return { seconds, onSeconds, offSeconds, unknownSeconds: seconds - onSeconds - offSeconds };
}

function closeDays(state: DeviceState, closed: readonly Day[]): DeviceState {
  if (closed.length === 0) return state;
  const told = closed.map((day) => ({ ...day, changes: [] }));
  const usage = { ...state.usage, untold: [...state.usage.untold, ...told].slice(-maxUntold), toldVersion: null };
  const append = (next: DeviceState, entry: Day) => appendHistory(next, { kind: 'day', number: entry.day, entry });
  return closed.reduce(append, { ...state, usage });
}

/** With a projection, which is written until D1 has it. */
function tell(state: DeviceState, nowMs: number): DeviceState {
  const { untold, toldVersion, today } = state.usage;
  if (untold.length === 0 || toldVersion !== null || nowMs < today.fromMs + spreadOf(state)) return state;
  const behind = markProjectionBehind(state);
  return { ...behind, usage: { ...state.usage, toldVersion: behind.presence.projectionVersion } };
}

/** As the owner's directory last answered. */
export function zoneOfOwner({ identity: { ownerId } }: DeviceState, webhooksOf: Decision['webhooksOf']): string {
  return webhooksOf([ownerId]).rules?.get(ownerId)?.zone ?? 'UTC';
}

function isSocketLost({ direct: { session } }: DeviceState): boolean {
  return session !== null && session.lostAtMs !== null;
}

function isWitnessed({ witness: { settings } }: DeviceState): boolean {
  return settings !== null && settings.expect !== 'pressed';
}

function valueOf(state: DeviceState): Value {
  if (!state.presence.connection.isOnline || state.identity.isDisabled) return 'unknown';
  const seen = isWitnessed(state) ? state.witness.actual?.value : state.properties.positions.at(-1)?.position;
  if (seen === undefined) return 'unknown';
  return seen === 'on' || seen === 'up' ? 'on' : 'off';
}

/** Closes the days that have ended by then. Those of which nothing is known are left out. */
export function advance(before: UsageSlice, toMs: number, zoneOf: () => string): { usage: UsageSlice; closed: Day[] } {
  const closed: Day[] = [];
  let usage = before;
  while (toMs >= usage.today.toMs) {
    const { today, value } = countUntil(usage, usage.today.toMs);
    if (!isEmpty(today)) closed.push(today);
    const zone = zoneOf();
    const day = value === 'unknown' ? Math.max(today.day + 1, dayAt(toMs, zone)) : today.day + 1;
    const fromMs = day === today.day + 1 ? today.toMs : Math.max(today.toMs, dayStart(day, zone));
    const next = emptyDay(day, zone, fromMs, Math.max(fromMs, dayStart(day + 1, zone)));
    const changes: Day['changes'] = value === 'unknown' ? [] : [[0, value]];
    usage = { ...usage, today: { ...next, changes }, sinceMs: fromMs };
  }
  return { usage, closed };
}

/** Within the day. What is counted is not taken back if the device turns out to be gone since. */
export function countUntil(usage: UsageSlice, atMs: number): UsageSlice {
  const { today, value, sinceMs } = usage;
  const ms = value === 'unknown' ? 0 : Math.max(0, atMs - sinceMs);
  const name = value === 'on' ? 'onMs' : 'offMs';
  return { ...usage, today: { ...today, [name]: today[name] + ms } };
}
