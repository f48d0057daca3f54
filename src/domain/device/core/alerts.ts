// Slice: what users are told of the device without asking: it is away for longer than usual, a lease has not ended, a run failed, a hand
// moved it. Each change is told until the user's inbox has it. Whether it disturbs the user is decided there.
import type { NoticeCause } from '../../../protocol/vocabulary.ts';
import { usersWith } from '../../access.ts';
import { defaultNoticeRules, type Notice, type NoticeRules } from '../../notices.ts';
import { dayMs, minuteMs, secondMs, toIso } from '../../time.ts';
import { isScene } from '../commands/command-life.ts';
import type { PropertiesSlice } from '../messages/properties.ts';
import { ownershipOf, readersOf } from '../ownership/sharing.ts';
import { isWithinHours } from '../times/calendar.ts';
import { findSchedule } from '../times/schedules.ts';
import type { Decision, Reporter } from './events.ts';
import type { DeviceState, Slice } from './state.ts';

/** `told`: the inbox has the notice. Null: the inbox has yet to drop it. */
type Entry = { userId: number; key: string; notice: Notice | null | 'told' };

type AlertsSlice = {
  /** Oldest first. An absence is dropped when enough later ones were as long. */
  absences: readonly (readonly [lengthMs: number, endedAtMs: number])[];
  /** When it went away; null if it is there. */
  awaySinceMs: number | null;
  entries: readonly Entry[];
  /** Until then a change of the position follows from a command. Not worth a row of its own. */
  explainedUntilMs: number;
  /** Memory only: a movement by hand that waits for the rules, when inboxes are told again, when the slice is due. */
  moved: PropertiesSlice['positions'][number] | null;
  tellAtMs: number;
  dueAtMs: number;
};

/** Shorter ones count as this. */
const shortestAbsenceMs = 5 * minuteMs;
const rememberAbsenceMs = 14 * dayMs;
const maxAbsences = 50;
/** So often a length has to come to be usual. */
const usualCount = 3;
/** A broker that forgot its sessions says nothing for hours about devices that are there. */
const mostBackdatedMs = 5 * minuteMs;
const leaseLateMs = 5 * minuteMs;
const commandSettlesMs = minuteMs;
const tellAgainAfterMs = minuteMs;
/** Beyond it, the oldest stay in the inboxes. */
const maxEntries = 1_000;

const memory = { moved: null, tellAtMs: 0, dueAtMs: Infinity };

export const alertsSlice: Slice<AlertsSlice> = {
  initial: { absences: [], awaySinceMs: null, entries: [], explainedUntilMs: 0, ...memory },
  // An absence ends with a change of the presence, in the same row.
  row: 'activity',
  read: (saved) => ({ ...saved, ...memory }),
  isWorthSaving: ({ alerts: saved }, { alerts }) =>
    saved.absences !== alerts.absences || saved.entries !== alerts.entries,
  dueAtMs: ({ alerts }) => alerts.dueAtMs,
  // Notices of former readers are taken back.
  onNewOwner: 'keep',
  onMove: 'stay',
};

/** At the end of each decision. It tells each reader what differs from what the reader was told. */
export function noteAlerts(before: DeviceState, decided: DeviceState, decision: Decision): DeviceState {
  const { nowMs, effects } = decision;
  // Told once, in the decision that finds it.
  const missed = before.witness.missed === decided.witness.missed ? null : decided.witness.missed;
  const alertsBefore = { ...decided.alerts, ...notePast(before, decided, nowMs) };
  const state = { ...decided, witness: { ...decided.witness, missed }, alerts: alertsBefore };
  const readers = readersOf(state);
  const { isComplete, rules } = decision.webhooksOf(readers);
  const controllers = usersWith(ownershipOf(state), 'control');
  let { entries, tellAtMs } = state.alerts;
  let dueAtMs = Infinity;
  const change = (userId: number, key: string, notice: Notice | null) => {
    const others = entries.filter((entry) => entry.userId !== userId || entry.key !== key);
    entries = [...others, { userId, key, notice }].slice(-maxEntries);
  };
  for (const userId of readers) {
    const own = rules?.get(userId) ?? (isComplete ? defaultNoticeRules : null);
    for (const { key, notice, dueAtMs: causeDueAtMs, isNew } of causesOf(state, own, isComplete, nowMs)) {
      const isTold = entries.some((entry) => entry.userId === userId && entry.key === key && entry.notice !== null);
      if (notice === null && isTold) change(userId, key, null);
      if (notice === null || (isTold && !isNew)) continue;
      if (causeDueAtMs > nowMs) dueAtMs = Math.min(dueAtMs, causeDueAtMs);
      else change(userId, key, controllers.includes(userId) ? notice : { ...notice, again: null });
    }
  }
  for (const { userId, key, notice } of entries) {
    if (notice !== null && !readers.includes(userId)) change(userId, key, null);
  }
  const untold = entries.filter(({ notice }) => notice !== 'told');
  const due = untold.filter((entry) => tellAtMs <= nowMs || !state.alerts.entries.includes(entry));
  send(due, effects);
  if (due.length > 0) tellAtMs = nowMs + tellAgainAfterMs;
  if (untold.length > 0) dueAtMs = Math.min(dueAtMs, tellAtMs);
  const moved = isComplete ? null : state.alerts.moved;
  const alerts: AlertsSlice = { ...state.alerts, entries, moved, tellAtMs, dueAtMs };
  const names = Object.keys(alerts) as (keyof AlertsSlice)[];
  // A decision that changes nothing stays the same state.
  return names.every((name) => alerts[name] === decided.alerts[name]) ? decided : { ...decided, alerts };
}

export const noteInboxTold: Reporter<'inbox_told'> = (state, { userId, changes }) => {
  const entries = state.alerts.entries.flatMap((entry): readonly Entry[] => {
    const { key, notice } = entry;
    if (entry.userId !== userId || notice === 'told') return [entry];
    if (!changes.some((change) => change.key === key && change.notice?.atMs === notice?.atMs)) return [entry];
    return notice === null ? [] : [{ ...entry, notice: 'told' }];
  });
  return { ...state, alerts: { ...state.alerts, entries } };
};

/** Of a deleted device, which tells nothing again. */
export function clearAlerts({ alerts }: DeviceState, { effects }: Decision): void {
  const cleared = alerts.entries.map((entry) => ({ ...entry, notice: null }));
  send(cleared, effects);
}

function send(untold: readonly Entry[], effects: Decision['effects']): void {
  for (const [userId, entries] of Map.groupBy(untold, (entry) => entry.userId)) {
    const changes = entries.flatMap(({ key, notice }) => (notice === 'told' ? [] : { key, notice }));
    effects.push({ kind: 'tell_inbox', userId, changes });
  }
}

/** `notice` null: the cause is gone. `isNew`: it replaces what the reader was told. */
type Cause = { key: string; notice: Notice | null; dueAtMs: number; isNew?: true };

/** For one reader. `rules` null: the directory has not answered yet. A movement by hand waits until no answer is old. */
function causesOf(state: DeviceState, rules: NoticeRules | null, areRulesPresent: boolean, nowMs: number): Cause[] {
  const { deviceId, name: deviceName, isDisabled } = state.identity;
  const { awaySinceMs, moved } = state.alerts;
  const noticeOf = (cause: NoticeCause, detail: Notice['detail'], again: Notice['again'] = null): Notice => ({
    ...{ cause, deviceId, deviceName, atMs: nowMs, detail, again },
  });
  const isAway = awaySinceMs !== null && !isDisabled;
  const offline = isAway ? noticeOf('offline', { since: toIso(state.presence.connection.offlineAtMs) }) : null;
  const { endsAtMs = Infinity, then = null } = state.lease.current ?? {};
  const lease = endsAtMs <= nowMs ? noticeOf('lease_not_off', { since: toIso(endsAtMs) }, then) : null;
  const causes: Cause[] = [
    { key: `offline ${deviceId}`, notice: offline, dueAtMs: awayDueAtMs(state.alerts, rules, nowMs) },
    { key: `lease ${deviceId}`, notice: lease, dueAtMs: endsAtMs + leaseLateMs },
  ];
  for (const { kind, entry } of state.newHistory) {
    if (kind !== 'run') continue;
    const { scheduleId, name, outcome, reason } = entry;
    const isFailed = outcome === 'missed' || outcome === 'refused';
    const detail = { scheduleId, name, dueAt: toIso(entry.dueAtMs), outcome, reason };
    const command = findSchedule(state, scheduleId)?.command;
    const notice = isFailed ? noticeOf('run_failed', detail, command && !isScene(command) ? command : null) : null;
    causes.push({ key: `run ${deviceId} ${scheduleId}`, notice, dueAtMs: nowMs, isNew: true });
  }
  const { missed } = state.witness;
  if (missed !== null) {
    const command = state.commands.loaded.find(({ commandId }) => commandId === missed.commandId);
    const detail = { commandId: missed.commandId, expected: command?.witness?.expect ?? null };
    const notice = noticeOf('not_witnessed', detail, command?.params ?? null);
    causes.push({ key: `witness ${deviceId}`, notice, dueAtMs: nowMs, isNew: true });
  }
  if (moved !== null && areRulesPresent && rules?.handHours && isWithinHours(rules.handHours, moved.time)) {
    const notice = { ...noticeOf('moved_by_hand', { position: moved.position }), atMs: moved.time };
    causes.push({ key: `hand ${deviceId}`, notice, dueAtMs: nowMs, isNew: true });
  }
  return causes;
}

/** Without a setting, after twice the longest absence that came often enough. */
function awayDueAtMs({ absences, awaySinceMs }: AlertsSlice, rules: NoticeRules | null, nowMs: number): number {
  if (awaySinceMs === null || rules === null) return Infinity;
  if (rules.offlineAfterSeconds !== null) return awaySinceMs + rules.offlineAfterSeconds * secondMs;
  const recent = absences.filter(([, endedAtMs]) => endedAtMs > nowMs - rememberAbsenceMs);
  const lengths = recent.map(([lengthMs]) => lengthMs).sort((one, other) => other - one);
  return awaySinceMs + 2 * (lengths[usualCount - 1] ?? shortestAbsenceMs);
}

function notePast(before: DeviceState, { presence, alerts, commands, properties }: DeviceState, nowMs: number) {
  const { isOnline, onlineSinceMs, offlineAtMs } = presence.connection;
  let { absences, awaySinceMs } = alerts;
  const lengthMs = isOnline ? (onlineSinceMs ?? nowMs) - (awaySinceMs ?? nowMs) : 0;
  if (lengthMs >= shortestAbsenceMs) {
    const all = [...absences, [lengthMs, nowMs] as const].slice(-maxAbsences);
    absences = all.filter(([ms], index) => all.slice(index + 1).filter(([later]) => later >= ms).length < usualCount);
  }
  if (isOnline) awaySinceMs = null;
  else if (before.presence.connection.isOnline) awaySinceMs = Math.max(offlineAtMs ?? 0, nowMs - mostBackdatedMs);
  const touched = commands.loaded.filter((command) => !before.commands.loaded.includes(command));
  const settlesAtMs = touched.map(({ holdSeconds = 0 }) => nowMs + commandSettlesMs + holdSeconds * secondMs);
  const explainedUntilMs = Math.max(alerts.explainedUntilMs, ...settlesAtMs);
  const isMoved = properties.positions !== before.properties.positions && properties.positions.length > 1;
  const moved = isMoved && nowMs >= explainedUntilMs ? (properties.positions.at(-1) ?? null) : alerts.moved;
  return { absences, awaySinceMs, explainedUntilMs, moved };
}
