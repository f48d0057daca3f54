// Slice: the witness of a device: something else that sees whether a press worked, and what it saw last. A command counts as witnessed
// only by what was seen after it was handed on. Nothing else follows from what is seen. What happens if nothing is: outcomes.ts.
import type { z } from 'zod';
import type { actualSchema, commandWitnessSchema, WitnessSettings } from '../../../protocol/http/witness.ts';
import type { witnessExpectations } from '../../../protocol/vocabulary.ts';
import type { Json } from '../../json.ts';
import { accept, refused, type Refusal } from '../../refusal.ts';
import { minuteMs, secondMs, toIso } from '../../time.ts';
import { spend, unspent } from '../../token-bucket.ts';
import { changeCommand, isPending, isScene, type Command } from '../commands/command-life.ts';
import type { Decision, Handler } from '../core/events.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import type { PropertyReport } from '../messages/properties.ts';

export type Condition = Extract<WitnessSettings['by'], { operator: unknown }>;
type Expectation = (typeof witnessExpectations)[number];

/** Of a condition, `isTrue` at a time. A counter that changed, and a check-in, are true. It was alike since `sinceMs`. */
type Sighting = { isTrue: boolean; value: z.infer<typeof actualSchema>['reading']; atMs: number; sinceMs?: number };
export type Reading = Sighting & { condition: string };

const initial = {
  settings: null as WitnessSettings | null,
  /** What another device reads counts while this user may manage the witness. */
  setBy: 0,
  /** Of the check-in link that counts. */
  linkId: null as string | null,
  actual: null as { value: Expectation; reading: Sighting['value']; atMs: number } | null,
  /** The last command has its effect before: what was seen until then says nothing of the present. */
  settledAtMs: 0,
  /** The last command that was not witnessed, if a notice was asked for. */
  missed: null as { commandId: string; atMs: number } | null,
  /** Memory only. */
  checkIns: unspent,
};
type WitnessSlice = typeof initial;

/** `checkAtMs`: then it ends without a sighting. */
export type CommandWitness = {
  expect: Expectation;
  fromMs: number;
  dueAtMs: number;
  checkAtMs: number;
  checks: number;
  outcome: z.infer<typeof commandWitnessSchema>['outcome'];
  atMs: number | null;
  by: string | null;
  reason: z.infer<typeof commandWitnessSchema>['reason'];
};

/** What was seen in time may arrive so late. */
const slackMs = secondMs;
/** What was seen longer ago is not what is: a hand may have pressed meanwhile. */
const freshMs = 30 * secondMs;
/** A command that was handed on may act so long, whatever the witness waits for. */
const actsWithinMs = 10 * secondMs;
const saveSightingEveryMs = 2 * minuteMs;
const checkInsPerMinute = 10;
const opposites = { on: 'off', off: 'on', pressed: null } as const;

export const witnessSlice: Slice<WitnessSlice> = {
  initial,
  row: 'own',
  read: (saved) => ({ ...saved, checkIns: unspent }),
  isWorthSaving: ({ witness: saved }, { witness }) => {
    const { actual, checkIns: _, ...others } = witness;
    if (Object.entries(others).some(([name, value]) => saved[name as keyof typeof others] !== value)) return true;
    if (saved.actual?.reading !== actual?.reading && !('operator' in (witness.settings?.by ?? {}))) return true;
    return (
      saved.actual?.value !== actual?.value || (actual?.atMs ?? 0) - (saved.actual?.atMs ?? 0) >= saveSightingEveryMs
    );
  },
  dueAtMs: ({ commands }, nowMs) =>
    Math.min(Infinity, ...commands.loaded.filter(awaitsWitness).map((command) => endAtMs(command, nowMs))),
  onNewOwner: 'forget',
};

/** Null removes it. */
export const setWitness: Handler<'witness_set'> = (state, { actor, settings, linkId }, { nowMs, effects }) => {
  const settledAtMs = Math.max(state.witness.settledAtMs, nowMs);
  const witness = { ...initial, settings, setBy: actor.userId, linkId, settledAtMs };
  askWitness(settings, { untilMs: 0, commandId: null }, effects);
  return { state: { ...replaceWaiting(state, effects), witness }, result: accept(null) };
};

/** Commands under way wait for what is seen from now on. An older one cannot be told from it any more. */
export function awaitWitness(state: DeviceState, command: Command, { nowMs, effects }: Decision): DeviceState {
  const { settings } = state.witness;
  if (settings === null || isScene(command.params)) return state;
  const dueAtMs = nowMs + settings.withinSeconds * secondMs;
  askWitness(settings, { untilMs: dueAtMs + slackMs, commandId: null }, effects);
  const { ensures: expect = settings.expect, witness: former } = command;
  // Sent again, it keeps what was seen since the first time.
  const isGoingOn = former?.outcome === 'pending' && nowMs <= former.dueAtMs;
  const times = { fromMs: isGoingOn ? former.fromMs : nowMs, dueAtMs, checkAtMs: dueAtMs + slackMs, checks: 0 };
  const begun = { expect, ...times, outcome: 'pending', atMs: null, by: null, reason: null } as const;
  const witness = former?.outcome === 'witnessed' ? former : begun;
  const alone = replaceWaiting(state, effects, command.commandId);
  const next = changeCommand(alone, command.commandId, (entry) => ({ ...entry, witness }));
  return { ...next, witness: { ...state.witness, settledAtMs: Math.max(dueAtMs, nowMs + actsWithinMs) } };
}

function replaceWaiting(state: DeviceState, effects: Decision['effects'], but?: string): DeviceState {
  return state.commands.loaded.filter(awaitsWitness).reduce((next, { commandId }) => {
    if (commandId === but) return next;
    effects.push({ kind: 'notify_waiting', commandId });
    return changeWitness(next, commandId, { outcome: 'not_witnessed', reason: 'replaced' });
  }, state);
}

/** When it ends without a sighting: one that has not reached its device yet goes on. */
export function endAtMs(command: Command & { witness: CommandWitness }, nowMs: number): number {
  const { brokerAcknowledgedAtMs, isAwaitingDevice, expiresAtMs, witness } = command;
  const isWaiting = isPending(command, nowMs) && (isAwaitingDevice || brokerAcknowledgedAtMs === null);
  return isWaiting ? Math.max(witness.checkAtMs, expiresAtMs) : witness.checkAtMs;
}

/** It wants to hear of each reading until then. */
export function askWitness(
  settings: WitnessSettings | null,
  question: { untilMs: number; commandId: string | null },
  effects: Decision['effects'],
): void {
  const deviceId = witnessElsewhere({ witness: { settings } });
  if (deviceId !== undefined) effects.push({ kind: 'ask_witness', deviceId, ...question });
}

/** The other device that is the witness. */
export function witnessElsewhere({ witness }: { witness: Pick<WitnessSlice, 'settings'> }): string | undefined {
  const by = witness.settings?.by;
  return by !== undefined && 'deviceId' in by ? by.deviceId : undefined;
}

export function awaitsWitness(command: Command): command is Command & { witness: CommandWitness } {
  return command.witness?.outcome === 'pending';
}

export function changeWitness(state: DeviceState, commandId: string, change: Partial<CommandWitness>): DeviceState {
  return changeCommand(state, commandId, (command) =>
    command.witness === undefined ? command : { ...command, witness: { ...command.witness, ...change } },
  );
}

/** The device's own report. */
export function seeOwnReport(state: DeviceState, report: PropertyReport, atMs: number, decision: Decision) {
  const { by } = state.witness.settings ?? {};
  if (by === undefined || !('property' in by) || 'deviceId' in by) return state;
  const reported = report.reported.get(by.property);
  if (reported === undefined) return state;
  if ('operator' in by) return see(state, readingOf(by, reported, atMs), decision);
  const isKnown = state.properties.values.some(([name]) => name === by.property);
  const value = scalarOf(reported);
  // Reported again after an older report that was held up, it has not changed.
  const hasChanged = report.changed.has(by.property) && (value === null || value !== state.witness.actual?.reading);
  return isKnown && hasChanged ? see(state, { isTrue: true, value, atMs }, decision) : state;
}

export const checkIn: Handler<'checked_in'> = (state, { linkId }, decision) => {
  const { witness } = state;
  if (witness.linkId !== linkId) return refused(state, { kind: 'not_found', what: 'witness' });
  const checkIns = spend(witness.checkIns, checkInsPerMinute, decision.nowMs);
  if (checkIns === undefined)
    return refused(state, { kind: 'rate_limited', limit: 'checkInsPerMinute', retryAfterSeconds: 6 });
  const counted = { ...state, witness: { ...witness, checkIns } };
  return { state: see(counted, { isTrue: true, value: null, atMs: decision.nowMs }, decision), result: accept(null) };
};

export function see(state: DeviceState, sighting: Sighting | undefined, { effects }: Decision): DeviceState {
  const { settings, actual } = state.witness;
  if (settings === null || sighting === undefined) return state;
  const { isTrue, value, atMs, sinceMs = atMs } = sighting;
  const seen = isTrue ? settings.expect : opposites[settings.expect];
  if (seen === null) return state;
  const isLater = atMs >= (actual?.atMs ?? 0);
  const next = isLater
    ? { ...state, witness: { ...state.witness, actual: { value: seen, reading: value, atMs } } }
    : state;
  const command = next.commands.loaded.find(awaitsWitness);
  if (command === undefined) return next;
  const { commandId, witness } = command;
  const seenAtMs = [sinceMs, atMs].find((ms) => ms > witness.fromMs && ms <= witness.dueAtMs);
  if (witness.expect !== seen || seenAtMs === undefined) return next;
  effects.push({ kind: 'notify_waiting', commandId });
  const witnessed = changeWitness(next, commandId, { outcome: 'witnessed', atMs: seenAtMs, by: nameOf(settings) });
  // It was seen to be otherwise before: this was the effect, and no other is to come.
  if (command.ensures === undefined) return witnessed;
  return { ...witnessed, witness: { ...witnessed.witness, settledAtMs: seenAtMs - 1 } };
}

/** An appliance is pressed only if it was just seen to be otherwise. */
export function refuseUnseen(state: DeviceState, ensures: Command['ensures'], nowMs: number): Refusal | undefined {
  if (ensures === undefined || freshActual(state, nowMs)?.value === opposites[ensures]) return undefined;
  return { kind: 'state_unknown', deviceId: state.identity.deviceId };
}

/** What is certainly so: seen a moment ago, and after the effect of the last command. */
export function freshActual(state: DeviceState, nowMs: number): z.infer<typeof actualSchema> | null {
  const { actual, settledAtMs } = state.witness;
  const isFresh = actual !== null && actual.atMs > settledAtMs && nowMs - actual.atMs <= freshMs;
  return isFresh ? viewActual(state, nowMs) : null;
}

const comparisons: Record<Condition['operator'], (value: Json, wanted: Json) => boolean> = {
  '=': (value, wanted) => value === wanted,
  '!=': (value, wanted) => value !== wanted,
  '<': (value, wanted) => Number(value) < Number(wanted),
  '<=': (value, wanted) => Number(value) <= Number(wanted),
  '>': (value, wanted) => Number(value) > Number(wanted),
  '>=': (value, wanted) => Number(value) >= Number(wanted),
};

/** Undefined if the value is of another type: `unavailable` is no power. */
export function readingOf(condition: Condition, value: Json, atMs: number): Reading | undefined {
  const { operator, value: wanted } = condition;
  if (typeof value !== typeof wanted) return undefined;
  const isTrue = comparisons[operator](value, wanted);
  return { isTrue, value: scalarOf(value), atMs, condition: textOf(condition) };
}

export function textOf({ property, operator, value }: Condition): string {
  return JSON.stringify([property, operator, value]);
}

function scalarOf(value: Json): Sighting['value'] {
  return typeof value === 'object' ? null : value;
}

export function viewActual({ witness }: DeviceState, nowMs: number): z.infer<typeof actualSchema> | null {
  const { actual, settings } = witness;
  if (actual === null) return null;
  const { value, reading, atMs } = actual;
  const ageSeconds = Math.max(0, Math.floor((nowMs - atMs) / secondMs));
  return { value, seenAt: toIso(atMs), ageSeconds, by: nameOf(settings), reading };
}

export function viewCommandWitness({ witness }: Command): z.infer<typeof commandWitnessSchema> | null {
  if (witness === undefined) return null;
  const { expect, outcome, by, reason, atMs, dueAtMs } = witness;
  return { expect, outcome, by, reason, at: toIso(atMs), dueAt: toIso(dueAtMs) };
}

function nameOf(settings: WitnessSettings | null): string {
  if (settings === null || 'checkIn' in settings.by) return 'check_in';
  return 'deviceId' in settings.by ? (settings.by.deviceId ?? 'property') : 'property';
}
