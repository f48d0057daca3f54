// What becomes of a command whose time for its witness is over: another device is asked once more, then it ends as not witnessed, and
// what the settings say follows. And what another device read. Repeats only a command that names a target.
import { inPerson } from '../../access.ts';
import { isIdempotent } from '../commands/command-life.ts';
import { giveCommand, refuseCommand } from '../commands/commands.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import type { DeviceState } from '../core/state.ts';
import { refuseUnless } from '../ownership/sharing.ts';
import { accept, refused } from '../../refusal.ts';
import { secondMs } from '../../time.ts';
import * as witnesses from './witness.ts';

const askAgainAfterMs = 10 * secondMs;
const maxChecks = 3;
const retryLifeMs = 10 * secondMs;

/** In each decision. */
export function judgeWitness(state: DeviceState, decision: Decision): DeviceState {
  const command = state.commands.loaded.find(witnesses.awaitsWitness);
  if (command === undefined) return state;
  const { commandId, witness } = command;
  const isUndelivered = command.undeliveredBecause !== null && command.undeliveredBecause !== 'outcome_unknown';
  if (isUndelivered || command.cancelledBecause !== null) return end(state, commandId, 'undelivered', decision);
  if (witnesses.endAtMs(command, decision.nowMs) > decision.nowMs) return state;
  if (witnesses.witnessElsewhere(state) === undefined) return end(state, commandId, 'not_seen', decision);
  if (witness.checks >= maxChecks) return end(state, commandId, 'unreachable', decision);
  witnesses.askWitness(state.witness.settings, { untilMs: 0, commandId }, decision.effects);
  const checkAtMs = decision.nowMs + askAgainAfterMs;
  return witnesses.changeWitness(state, commandId, { checkAtMs, checks: witness.checks + 1 });
}

/** What another device read. Refused if it is not the witness any more. */
export const takeReading: Handler<'witness_read'> = (state, { deviceId, reading }, decision) => {
  const { settings, setBy } = state.witness;
  const isAllowed = refuseUnless(state, inPerson(setBy), 'manageWitness') === undefined;
  if (witnesses.witnessElsewhere(state) !== deviceId || !isAllowed)
    return refused(state, { kind: 'not_found', what: 'witness' });
  // Not if the settings changed while it was on its way.
  const isMeant = settings !== null && 'operator' in settings.by && reading.condition === witnesses.textOf(settings.by);
  return { state: isMeant ? witnesses.see(state, reading, decision) : state, result: accept(null) };
};

/** The other device was asked, and its reading has been taken. */
export const noteAsked: Reporter<'witness_asked'> = (state, { commandId, problem }, decision) => {
  const command = state.commands.loaded.filter(witnesses.awaitsWitness).find((entry) => entry.commandId === commandId);
  if (command === undefined || command.witness.checks === 0) return state;
  return end(state, commandId, problem ?? 'not_seen', decision);
};

function end(
  state: DeviceState,
  commandId: string,
  reason: NonNullable<witnesses.CommandWitness['reason']>,
  decision: Decision,
): DeviceState {
  const { nowMs, effects } = decision;
  const command = state.commands.loaded.find((entry) => entry.commandId === commandId);
  effects.push({ kind: 'notify_waiting', commandId });
  const ended = witnesses.changeWitness(state, commandId, { outcome: 'not_witnessed', reason });
  const { then } = state.witness.settings ?? {};
  if (then === 'notice') return { ...ended, witness: { ...ended.witness, missed: { commandId, atMs: nowMs } } };
  if (then !== 'retry_once' || reason !== 'not_seen' || command?.retryOf !== undefined) return ended;
  if (command?.givenBy === undefined || !isIdempotent(command.params)) return ended;
  const { params, givenBy, keyId } = command;
  const refusal = refuseCommand(state) ?? refuseUnless(state, inPerson(givenBy.userId), 'control');
  // A newer command would end a lease, whose end would not come any more.
  if (refusal !== undefined || state.lease.current !== null || state.lease.pending.length > 0) return ended;
  const giver = { givenBy, ...(keyId !== undefined && { keyId }) };
  const source = { ...decision.newCommand(), params, ...giver, retryOf: commandId };
  return giveCommand(ended, source, nowMs + retryLifeMs, decision);
}
