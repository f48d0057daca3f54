// The life of one command: its steps, and the state that they amount to. Times are the service's clock. Publishes and
// stores nothing.
import type { CommandReason, CommandState } from '../../../protocol/vocabulary.ts';
import type { ControlParams } from '../../control-command.ts';
import type { Json } from '../../json.ts';
import type { DeviceState } from '../core/state.ts';
import type { PropertyReport } from '../messages/properties.ts';
import type { CommandWitness } from '../witness/witness.ts';

/** `via`: a home of the user, with the API key; or a scene. */
type CommandGiver = { userId: number; withKey: boolean; via?: 'home' | 'scene' };

export type Command = {
  commandId: string;
  number: number;
  params: ControlParams;
  givenBy?: CommandGiver;
  /** The API key with which it was given. */
  keyId?: string;
  guestLinkId?: string;
  /** Given by this schedule, or at the end of a lease. */
  scheduleId?: string;
  /** It turns an appliance on or off that was seen to be otherwise. */
  ensures?: 'on' | 'off';
  /** Sent once more, because the witness of that command saw nothing. */
  retryOf?: string;
  /** From when it was handed on, if the device has a witness. */
  witness?: CommandWitness;
  /** The device takes the command back by itself after this time. */
  holdSeconds?: number;
  acceptedAtMs: number;
  /** No reply is expected after it; a queued command is not published after it. */
  expiresAtMs: number;
  /** Queued: published again whenever the device comes back, until it replies. */
  isQueued: boolean;
  /** The device was offline when it was published last, as far as was known. */
  isAwaitingDevice: boolean;
  publishedAtMs: number | null;
  brokerAcknowledgedAtMs: number | null;
  /** The device's direct session acknowledged the packet; the reply is another step. Absent before there were such sessions. */
  deliveredAtMs?: number | null;
  deviceAcknowledgedAtMs: number | null;
  replyCode: number | null;
  confirmedAtMs: number | null;
  undeliveredBecause: 'broker_unavailable' | 'no_subscriber' | 'outcome_unknown' | null;
  cancelledBecause: 'requested' | 'replaced' | 'revoked' | null;
  /** It has not ended. False: its end was noted. */
  isEndDue?: boolean;
  /** When D1 last said that account and API key of its giver are valid. */
  giverCheckedAtMs?: number;
  /** Publications left for this return of the device, and when the next is due. */
  attemptsLeft: number;
  attemptAtMs: number | null;
};

/** In place of a schedule's id: the end of a lease. */
export const leaseId = 'lease';

export type Publication = { startedAtMs: number; acknowledgedAtMs: number; hasReachedNobody: boolean };

/** Long enough for a slow device, short enough that nobody is surprised by a switch that moves. */
const lifeMs = 10_000;
const attemptsPerReturn = 2;
/** A device subscribes a moment after its session began and does not receive what was published in between. */
const secondAttemptAfterMs = 2_000;
const brokerRetryAfterMs = 10_000;
/** After the device replied, so long a report may still show the result. */
const confirmWithinMs = 10_000;
/** Longer than until the second attempt, which then needs no check of its own. */
const giverValidMs = 3_000;

/** It names a target, so that repeating it changes nothing. Every other command is momentary. */
export function isIdempotent(params: ControlParams): boolean {
  if ('switch' in params) return false;
  return 'angle' in params || 'position' in params;
}

/** The run of a scene has the id of the command that starts it: started again, it is the same. */
export const isScene = ({ action }: ControlParams): boolean => action === 'scene';
export const mayRepeat = (params: ControlParams): boolean => isIdempotent(params) || isScene(params);

type SourceMember = 'guestLinkId' | 'scheduleId' | 'ensures' | 'retryOf' | 'holdSeconds' | 'giverCheckedAtMs';
export type CommandSource = Pick<Command, 'commandId' | 'number' | 'params' | 'givenBy' | 'keyId' | SourceMember>;

export function acceptCommand(source: CommandSource, ttlSeconds: number | undefined, nowMs: number): Command {
  return {
    ...source,
    acceptedAtMs: nowMs,
    expiresAtMs: nowMs + (ttlSeconds === undefined ? lifeMs : ttlSeconds * 1000),
    isQueued: ttlSeconds !== undefined,
    isAwaitingDevice: false,
    publishedAtMs: null,
    brokerAcknowledgedAtMs: null,
    deliveredAtMs: null,
    deviceAcknowledgedAtMs: null,
    replyCode: null,
    confirmedAtMs: null,
    undeliveredBecause: null,
    cancelledBecause: null,
    attemptsLeft: 0,
    attemptAtMs: null,
  };
}

/** A momentary command is published once, and each attempt of a lease. */
export function markStarted(command: Command): Command {
  const isKeptQueued = mayRepeat(command.params) && command.scheduleId !== leaseId;
  return isKeptQueued ? command : { ...command, isQueued: false, attemptAtMs: null };
}

export function markPublished(
  command: Command,
  { startedAtMs, acknowledgedAtMs, hasReachedNobody }: Publication,
  isDeviceOnline: boolean,
  nowMs: number,
): Command {
  const isAnswered = command.deviceAcknowledgedAtMs !== null;
  // Right after its session began a device may be there and not have subscribed yet.
  const isTooEarly = command.isQueued && command.publishedAtMs === null && hasReachedNobody && isDeviceOnline;
  const attemptsLeft = isTooEarly ? 1 : Math.max(0, command.attemptsLeft - 1);
  return {
    ...command,
    publishedAtMs: command.publishedAtMs ?? startedAtMs,
    brokerAcknowledgedAtMs: command.brokerAcknowledgedAtMs ?? acknowledgedAtMs,
    undeliveredBecause: hasReachedNobody && !isAnswered && !command.isQueued ? 'no_subscriber' : null,
    isAwaitingDevice: command.isQueued && !isAnswered && (hasReachedNobody || !isDeviceOnline),
    attemptsLeft,
    attemptAtMs: attemptsLeft > 0 && !isAnswered ? nowMs + secondAttemptAfterMs : null,
  };
}

/** The first failure ends the command, because its caller is told; a later one, or that of a schedule, is tried again. */
export function markUnpublished(command: Command, isCertain: boolean, nowMs: number): Command {
  const isTimed = command.scheduleId !== undefined && isPending(command, nowMs);
  if (command.publishedAtMs !== null || isTimed) return { ...command, attemptAtMs: nowMs + brokerRetryAfterMs };
  const undeliveredBecause = isCertain ? 'broker_unavailable' : 'outcome_unknown';
  return { ...command, isQueued: false, attemptAtMs: null, undeliveredBecause };
}

export function markDelivered(command: Command, nowMs: number): Command {
  const attempt = { attemptsLeft: 0, attemptAtMs: null, isAwaitingDevice: false };
  return { ...command, ...attempt, deliveredAtMs: command.deliveredAtMs ?? nowMs };
}

export function markReplied(command: Command, replyCode: number | null, nowMs: number): Command {
  if (command.deviceAcknowledgedAtMs !== null) return command;
  return { ...command, deviceAcknowledgedAtMs: nowMs, replyCode, attemptAtMs: null, isAwaitingDevice: false };
}

/** Without a reply only a changed value proves the command: an equal one may have been reported before it arrived. */
export function markShown(command: Command, { reported, changed }: PropertyReport, nowMs: number): Command {
  const [name, value] = visibleResult(command.params) ?? [];
  if (name === undefined || command.confirmedAtMs !== null || command.cancelledBecause !== null) return command;
  const isReplied = command.deviceAcknowledgedAtMs !== null && isSuccess(command.replyCode);
  const isUnderWay = isPublished(command) && !command.isAwaitingDevice && nowMs < command.expiresAtMs;
  const isUnanswered = command.deviceAcknowledgedAtMs === null;
  const evidence = isReplied ? reported : isUnanswered && isUnderWay ? changed : undefined;
  if (evidence?.get(name) !== value) return command;
  return { ...command, confirmedAtMs: nowMs, attemptAtMs: null, isAwaitingDevice: false };
}

export function markCancelled(command: Command, cancelledBecause: NonNullable<Command['cancelledBecause']>): Command {
  return { ...command, cancelledBecause, attemptAtMs: null };
}

/** The device is back: a queued command that has not ended is due now, unless it is under way already. */
export function markReturned(command: Command, nowMs: number): Command {
  const untilNextMs = (command.attemptAtMs ?? 0) - nowMs;
  const isUnderWay = untilNextMs > 0 && untilNextMs <= secondAttemptAfterMs;
  if (isUnderWay || !isPending(command, nowMs)) return command;
  return { ...command, attemptsLeft: attemptsPerReturn, attemptAtMs: nowMs };
}

export function markGiverValid(command: Command, nowMs: number): Command {
  if (hasValidGiver(command, nowMs)) return command;
  return { ...command, giverCheckedAtMs: nowMs, attemptAtMs: command.attemptAtMs === null ? null : nowMs };
}

export function hasValidGiver({ giverCheckedAtMs }: Command, nowMs: number): boolean {
  return giverCheckedAtMs !== undefined && nowMs < giverCheckedAtMs + giverValidMs;
}

/** Queued, and neither answered nor ended: it may still have to be published. */
export function isPending(command: Command, nowMs: number): boolean {
  const isSettled = command.deviceAcknowledgedAtMs !== null || command.confirmedAtMs !== null;
  return command.isQueued && !isSettled && command.cancelledBecause === null && nowMs < command.expiresAtMs;
}

/** Such commands are loaded when the object wakes. */
export function isKept(command: Command, nowMs: number): boolean {
  return command.isEndDue === true || command.witness?.outcome === 'pending' || isOpen(command, nowMs);
}

/** A report or a publication can still change its state. */
export function isOpen(command: Command, nowMs: number): boolean {
  const { confirmedAtMs, cancelledBecause, undeliveredBecause, replyCode } = command;
  const isConfirmable = visibleResult(command.params) !== undefined && confirmedAtMs === null && isSuccess(replyCode);
  const isEnded = cancelledBecause !== null || undeliveredBecause !== null;
  return isPending(command, nowMs) || (isConfirmable && !isEnded);
}

export function describeCommand(
  command: Command,
  isDeviceOnline: boolean,
  nowMs: number,
): { state: CommandState; reason: CommandReason | null } {
  const { cancelledBecause, undeliveredBecause, replyCode } = command;
  if (command.deviceAcknowledgedAtMs !== null && replyCode !== null && !isSuccess(replyCode)) {
    return { state: 'failed', reason: `device replied ${replyCode}` };
  }
  if (command.confirmedAtMs !== null) return { state: 'confirmed', reason: null };
  if (command.deviceAcknowledgedAtMs !== null) return { state: 'acknowledged', reason: null };
  if (cancelledBecause !== null) return { state: 'cancelled', reason: cancelledBecause };
  // A bridge that was lost with it may have published it: `undelivered` might not be true.
  if (undeliveredBecause === 'outcome_unknown') return { state: 'expired', reason: undeliveredBecause };
  if (undeliveredBecause !== null) return { state: 'undelivered', reason: undeliveredBecause };
  if (nowMs >= command.expiresAtMs) return { state: 'expired', reason: 'no_reply' };
  if (!isPublished(command)) return { state: 'accepted', reason: null };
  if (command.isQueued && (command.isAwaitingDevice || !isDeviceOnline)) return { state: 'waiting', reason: null };
  return { state: 'sent', reason: null };
}

/** Until then a reply or a report is expected. */
export function settleAtMs(command: Command | undefined): number {
  if (command === undefined) return 0;
  const { deviceAcknowledgedAtMs, expiresAtMs } = command;
  if (deviceAcknowledgedAtMs === null) return expiresAtMs;
  return isIdempotent(command.params) ? deviceAcknowledgedAtMs + confirmWithinMs : deviceAcknowledgedAtMs;
}

/** Its state has ended, and nothing is expected to change it. */
export function isFinal(command: Command, state: CommandState, nowMs: number): boolean {
  if (['accepted', 'sent', 'waiting'].includes(state) || command.witness?.outcome === 'pending') return false;
  return !['acknowledged', 'expired'].includes(state) || nowMs >= settleAtMs(command);
}

/** The property that shows that the command happened. A switch has none: what is on at `up` is the maker's choice. */
export function visibleResult(params: ControlParams): [name: string, value: Json] | undefined {
  if (params.position !== undefined) return ['position', params.position];
  if (params.angle !== undefined) return ['angle', params.angle];
  return undefined;
}

function isPublished(command: Command): boolean {
  return command.brokerAcknowledgedAtMs !== null;
}

/** A reply without a code says that it arrived; 0 and 2xx are the success codes in the field. */
export function isSuccess(replyCode: number | null): boolean {
  return replyCode === null || replyCode === 0 || (replyCode >= 200 && replyCode < 300);
}

export function changeCommand(
  state: DeviceState,
  commandId: string,
  change: (command: Command) => Command,
): DeviceState {
  const before = state.commands.loaded.find((command) => command.commandId === commandId);
  const after = before && change(before);
  if (after === undefined || after === before) return state;
  const loaded = state.commands.loaded.map((command) => (command === before ? after : command));
  return { ...state, commands: { ...state.commands, loaded } };
}
