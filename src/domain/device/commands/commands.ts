// Slice: the commands of a device, from their acceptance to their end, and the stored answers to idempotent requests.
// What a step means for one command is command-life.ts; publishing itself is an effect.
import type { Slice, DeviceState } from '../core/state.ts';
import { topicActions } from '../../../protocol/mqtt.ts';
import { seesSharing, type Actor } from '../../access.ts';
import { encodeControl, type ControlParams } from '../../control-command.ts';
import { isCertainlyUnpublished, type PublishFailure, type PublishOutcome } from '../../publish-outcome.ts';
import { accept, refuse, refused, type Outcome, type Refusal } from '../../refusal.ts';
import { toIso } from '../../time.ts';
import { topicOf } from '../../topics.ts';
import type { Decision, Handler, Reporter } from '../core/events.ts';
import type { PropertyReport } from '../messages/properties.ts';
import { pushMessage } from '../messages/subscriptions.ts';
import { isActivated } from '../ownership/credentials.ts';
import { holdLease, noteReplied, noteReported, noteReturn, releaseLease, type LeaseRequest } from '../times/lease.ts';
import { awaitWitness, refuseUnseen, viewCommandWitness } from '../witness/witness.ts';
import * as life from './command-life.ts';
import { changeCommand, type Command, type CommandSource } from './command-life.ts';

export type CommandsSlice = {
  /** Newest first: the newest open commands, and those that the present event names. */
  loaded: readonly Command[];
  records: readonly IdempotencyRecord[];
  /** Memory only: handed to the broker, which has not answered. */
  inFlight: readonly InFlight[];
};

export type IdempotencyRecord = {
  key: string;
  /** Digest of the request: the same key with another request is a mistake of the caller. */
  digest: string;
  commandId: string;
  deviceOnline: boolean;
  expiresAtMs: number;
  createdAtMs: number;
  /** `pending` while the broker is asked, or for good if the object ended meanwhile. */
  publication: 'pending' | 'sent' | PublishFailure;
};

type InFlight = { commandId: string; startedAtMs: number; record: IdempotencyRecord | undefined };

export type CommandRequest = {
  params: ControlParams;
  ttlSeconds: number | undefined;
  waitSeconds: number | undefined;
  idempotencyKey: string | undefined;
  lease?: LeaseRequest | undefined;
  ensures?: 'on' | 'off' | undefined;
  /** What `waitSeconds` waits for; absent: the reply. */
  until?: 'witnessed' | undefined;
  via?: 'home' | 'scene' | undefined;
};

export type AcceptedCommand = Pick<IdempotencyRecord, 'commandId' | 'deviceOnline' | 'expiresAtMs' | 'publication'>;

/** Open commands that are considered, newest first: a newer one ends what an older one waits for. */
export const maxOpen = 8;
/** A bridge or broker that has not taken a command by then will not. */
const publishWithinMs = 4_500;
/** The broker keeps a command no longer than this for a session it still holds, nor than the command lives. */
const maxMessageExpirySeconds = 10;
/** A publication that has not ended by then was lost with the object. */
const lostAfterMs = 12_000;
/** D1 is asked about the giver again if it did not answer. */
const giverRetryAfterMs = 10_000;
/** In place of a device's reply: its giver has no such scene. */
const noSuchScene = 404;
/** Not published any more if it expires before that: brokers count the expiry of messages in seconds. */
export const shortestLifeMs = 2_000;

export const commandsSlice: Slice<CommandsSlice> = {
  initial: { loaded: [], records: [], inFlight: [] },
  row: 'none',
  dueAtMs: (state, nowMs) =>
    Math.min(lostAtMs(state, nowMs), ...attempts(state, nowMs).flatMap(({ attemptAtMs }) => attemptAtMs ?? [])),
  onNewOwner: 'forget',
};

export function acceptRequest(
  state: DeviceState,
  input: { request: CommandRequest } & ({ actor: Actor } | { guestLinkId: string }),
  decision: Decision,
): { state: DeviceState; result: Outcome<AcceptedCommand> } {
  const { request } = input;
  const { params, ttlSeconds, lease, ensures } = request;
  const key = 'actor' in input ? userKey(input.actor, request) : request.idempotencyKey;
  const digest = JSON.stringify([
    Object.entries(params).sort(),
    ttlSeconds ?? null,
    ...(lease ? [lease] : []),
    ...(ensures ? [ensures] : []),
  ]);
  const former = state.commands.records.find((record) => record.key === key);
  if (former !== undefined)
    return { state, result: former.digest === digest ? { ok: true, value: former } : keyIsTaken };
  const refusal = refuseCommand(state) ?? refuseUnseen(state, ensures, decision.nowMs);
  if (refusal !== undefined) return refused(state, refusal);
  const giver = 'actor' in input ? sourceOf(input.actor, request.via) : { guestLinkId: input.guestLinkId };
  const hold = lease !== undefined && state.identity.supportsHold === true ? { holdSeconds: lease.seconds } : {};
  const source = { ...decision.newCommand(), params, ...giver, ...hold, ...(ensures && { ensures }) };
  const command = life.acceptCommand(source, ttlSeconds, decision.nowMs);
  const deviceOnline = state.presence.connection.isOnline;
  const accepted = {
    commandId: command.commandId,
    deviceOnline,
    expiresAtMs: command.expiresAtMs,
    publication: 'pending' as const,
  };
  const record = key === undefined ? undefined : { ...accepted, key, digest, createdAtMs: decision.nowMs };
  const next = withCommands(state, {
    loaded: [command, ...state.commands.loaded],
    records: record === undefined ? state.commands.records : [...state.commands.records, record],
  });
  return { state: publish(next, command, { record, lease }, decision), result: accept(accepted) };
}

/** A command of a schedule or a lease: queued until it is published, so that its giver is confirmed first. */
export function giveCommand(state: DeviceState, source: CommandSource, expiresAtMs: number, decision: Decision) {
  const { nowMs } = decision;
  const command = { ...life.acceptCommand(source, (expiresAtMs - nowMs) / 1000, nowMs), attemptAtMs: nowMs };
  return publishDue(withCommands(state, { loaded: [command, ...state.commands.loaded] }), decision);
}

/** The key of an idempotency record: another user's record is not found by it. */
export function userKey({ userId }: Actor, { idempotencyKey }: CommandRequest): string | undefined {
  return idempotencyKey === undefined ? undefined : `${userId}\n${idempotencyKey}`;
}

export function sourceOf(
  { userId, keyId }: Pick<Actor, 'userId' | 'keyId'>,
  via?: CommandRequest['via'],
): Pick<Command, 'givenBy' | 'keyId'> {
  const givenBy = { userId, withKey: keyId !== null, ...(via && { via }) };
  return keyId === null ? { givenBy } : { givenBy, keyId };
}

type CommandRefusal = Extract<
  Refusal,
  { kind: 'device_not_activated' | 'device_disabled' | 'device_restarting' | 'product_readonly' }
>;

export function refuseCommand(state: DeviceState): CommandRefusal | undefined {
  const { update } = state.firmware;
  const { deviceId } = state.identity;
  return refuseControl(state) ?? (update?.state === 'restarting' ? { kind: 'device_restarting', deviceId } : undefined);
}

/** Why it takes no commands, now and later. */
export function refuseControl({ identity, credentials }: DeviceState): CommandRefusal | undefined {
  const { isDisabled, deviceId, controlMode, productKey } = identity;
  if (!isActivated(credentials)) return { kind: 'device_not_activated', deviceId };
  if (isDisabled) return { kind: 'device_disabled', deviceId };
  return controlMode === 'readonly' ? { kind: 'product_readonly', productKey } : undefined;
}

export const applyPublication: Reporter<'publication_ended'> = (state, { commandId, outcome }, decision) => {
  const flight = state.commands.inFlight.find((entry) => entry.commandId === commandId);
  const command = state.commands.loaded.find((entry) => entry.commandId === commandId);
  if (flight === undefined) return state;
  const { record } = flight;
  let next = withCommands(state, {
    inFlight: state.commands.inFlight.filter((entry) => entry !== flight),
    records:
      record === undefined
        ? state.commands.records
        : [...state.commands.records, { ...record, publication: outcome.ok ? 'sent' : outcome.reason }],
  });
  if (command !== undefined) {
    next = outcome.ok
      ? applyPublished(next, command, flight.startedAtMs, outcome, decision)
      : changeCommand(next, commandId, (entry) =>
          life.markUnpublished(entry, isCertainlyUnpublished(outcome.reason), decision.nowMs),
        );
    const published = next.commands.loaded.find((entry) => entry.commandId === commandId);
    const hasReached = outcome.ok && published?.undeliveredBecause !== 'no_subscriber';
    next = releaseLease(next, command, hasReached || (!outcome.ok && !isCertainlyUnpublished(outcome.reason)));
  }
  decision.effects.push({ kind: 'notify_waiting', commandId });
  return publishDue(next, decision);
};

/** The device's reply. One that belongs to no command changes nothing. */
export function applyReply(
  state: DeviceState,
  commandId: string,
  code: number | null,
  { nowMs, effects }: Decision,
): DeviceState {
  effects.push({ kind: 'notify_waiting', commandId });
  const noted = noteReplied(state, commandId, life.isSuccess(code));
  return changeCommand(noted, commandId, (command) => life.markReplied(command, code, nowMs));
}

export function applyDelivery(state: DeviceState, commandId: string, nowMs: number): DeviceState {
  return changeCommand(state, commandId, (command) => life.markDelivered(command, nowMs));
}

export function isAwaitingReply(state: DeviceState, commandId: string): boolean {
  return state.commands.loaded.some((entry) => entry.commandId === commandId && entry.deviceAcknowledgedAtMs === null);
}

/** A report may show the result of the newest published command; the results of older ones cannot be distinguished from it. */
export function confirmByReport(state: DeviceState, report: PropertyReport, nowMs: number): DeviceState {
  const noted = noteReported(state, report, nowMs);
  const newest = openCommands(noted, nowMs).find(({ brokerAcknowledgedAtMs }) => brokerAcknowledgedAtMs !== null);
  if (newest === undefined) return noted;
  return changeCommand(noted, newest.commandId, (command) => life.markShown(command, report, nowMs));
}

export function applyReturn(state: DeviceState, decision: Decision): DeviceState {
  const { nowMs } = decision;
  const noted = noteReturn(state, nowMs);
  const returned = changePending(noted, nowMs, (command) => life.markReturned(command, nowMs));
  return publishDue(returned, decision);
}

/** Publishes the next queued command that is due; none while another is with the broker, which may end it. */
export function publishDue(state: DeviceState, decision: Decision): DeviceState {
  const due = attempts(state, decision.nowMs).find(
    ({ attemptAtMs }) => attemptAtMs !== null && attemptAtMs <= decision.nowMs,
  );
  if (due === undefined) return state;
  const { givenBy, commandId, keyId = null } = due;
  // The device of a disabled owner is disabled: nothing is published to it, and nobody has to ask.
  const isOwner = givenBy?.userId === state.identity.ownerId && !givenBy.withKey;
  if (givenBy === undefined || isOwner || life.hasValidGiver(due, decision.nowMs)) {
    return publish(changeCommand(state, commandId, life.markStarted), due, {}, decision);
  }
  decision.effects.push({ kind: 'check_giver', userId: givenBy.userId, keyId });
  const attemptAtMs = decision.nowMs + giverRetryAfterMs;
  return changeCommand(state, commandId, (command) => ({ ...command, attemptAtMs }));
}

export const applyGiverCheck: Reporter<'giver_checked'> = (state, { userId, keyId, isValid }, decision) => {
  const { nowMs } = decision;
  const marked = changePending(state, nowMs, (command) => {
    if (command.givenBy?.userId !== userId || (command.keyId ?? null) !== keyId) return command;
    return isValid ? life.markGiverValid(command, nowMs) : life.markCancelled(command, 'revoked');
  });
  return publishDue(marked, decision);
};

/** Cancels the queued commands of users who may send none any more. A publication on its way cannot be taken back. */
export function cancelQueued(state: DeviceState, mayControl: readonly number[], nowMs: number): DeviceState {
  return changePending(state, nowMs, (command) => {
    const isAllowed = command.givenBy === undefined || mayControl.includes(command.givenBy.userId);
    return isAllowed ? command : life.markCancelled(command, 'revoked');
  });
}

export const cancelCommand: Handler<'cancel_requested'> = (state, { actor, commandId }, { nowMs }) => {
  const command = state.commands.loaded.find((entry) => entry.commandId === commandId);
  if (command === undefined) return refused(state, { kind: 'not_found', what: 'command', id: commandId });
  const view = viewCommand(state, command, nowMs, actor);
  if (view.state !== 'waiting' || state.commands.inFlight.some((entry) => entry.commandId === commandId)) {
    const isOnItsWay = ['sent', 'accepted', 'waiting'].includes(view.state);
    const problem = `is ${isOnItsWay ? 'published' : view.state} already`;
    return refused(state, { kind: 'invalid_input', path: 'commandId', problem });
  }
  const cancelled = life.markCancelled(command, 'requested');
  const next = changeCommand(state, commandId, () => cancelled);
  return { state: next, result: accept(viewCommand(next, cancelled, nowMs, actor)) };
};

export type CommandView = ReturnType<typeof viewCommand>;

/** `userId` is null for another user, and so is `guestLinkId`, for an actor without the right `readSharing`. */
export function viewCommand(state: DeviceState, command: Command, nowMs: number, actor: Actor) {
  const { givenBy, guestLinkId = null, scheduleId = null } = command;
  const isWhole = seesSharing(state, actor);
  const userId = isWhole || givenBy?.userId === actor.userId ? (givenBy?.userId ?? null) : null;
  const described = life.describeCommand(command, state.presence.connection.isOnline, nowMs);
  return {
    commandId: command.commandId,
    ...described,
    final: life.isFinal(command, described.state, nowMs),
    replyCode: command.replyCode,
    params: command.params,
    givenBy: givenBy === undefined ? null : { ...givenBy, userId },
    guestLinkId: isWhole ? guestLinkId : null,
    scheduleId,
    kept: command.isQueued,
    retryOf: command.retryOf ?? null,
    witness: viewCommandWitness(command),
    expiresAt: toIso(command.expiresAtMs),
    steps: {
      accepted: command.acceptedAtMs,
      published: command.publishedAtMs,
      brokerAcknowledged: command.brokerAcknowledgedAtMs,
      deliveredAt: command.deliveredAtMs ?? null,
      deviceAcknowledged: command.deviceAcknowledgedAtMs,
      confirmed: command.confirmedAtMs,
      witnessed: command.witness?.atMs ?? null,
    },
  };
}

function applyPublished(
  state: DeviceState,
  { commandId, number, ...command }: Command,
  startedAtMs: number,
  outcome: Extract<PublishOutcome, { ok: true }>,
  decision: Decision,
): DeviceState {
  const { nowMs } = decision;
  const subscriptions = state.subscriptions.filter(({ ignoresCommands }) => !ignoresCommands);
  // A subscriber of the relay may be the device itself, which then answers there.
  const hasReachedNobody = outcome.hasSubscribers === false && subscriptions.length === 0;
  const publication = { startedAtMs, acknowledgedAtMs: outcome.publishedAtMs, hasReachedNobody };
  const { isOnline } = state.presence.connection;
  let next = changeCommand(state, commandId, (entry) => life.markPublished(entry, publication, isOnline, nowMs));
  if (life.isScene(command.params)) {
    const code = outcome.hasSubscribers === false ? noSuchScene : null;
    return changeCommand(next, commandId, (entry) => life.markReplied(entry, code, nowMs));
  }
  for (const older of next.commands.loaded) {
    if (older.number < number && life.isPending(older, nowMs) && life.isIdempotent(older.params))
      next = changeCommand(next, older.commandId, (entry) => life.markCancelled(entry, 'replaced'));
  }
  const payload = encodeControl(command, commandId);
  pushMessage({ ...state, subscriptions }, topicActions.propertySet, payload, decision);
  return next;
}

function publish(
  state: DeviceState,
  command: Command,
  { record, lease }: { record?: IdempotencyRecord | undefined; lease?: LeaseRequest | undefined },
  decision: Decision,
): DeviceState {
  const { nowMs, effects } = decision;
  const { commandId, expiresAtMs, params, givenBy, keyId = null } = command;
  const leftMs = expiresAtMs - nowMs;
  // The broker counts from its publication: together they end within the grace of a schedule.
  const withinMs = Math.min(publishWithinMs, leftMs / 2);
  const messageMs = command.scheduleId === undefined ? leftMs : Math.floor((leftMs - withinMs) / 1000) * 1000;
  effects.push({
    kind: 'publish_command',
    commandId,
    topic: topicOf(state.identity, topicActions.propertySet),
    payload: encodeControl(command, commandId),
    expiresAtMs: nowMs + withinMs,
    messageExpirySeconds: Math.min(maxMessageExpirySeconds, Math.ceil(messageMs / 1000)),
    scene: givenBy && life.isScene(params) ? { sceneId: String(params['sceneId']), ...givenBy, keyId } : null,
  });
  const inFlight = [...state.commands.inFlight, { commandId, startedAtMs: nowMs, record }];
  return withCommands(holdLease(awaitWitness(state, command, decision), command, lease, nowMs), { inFlight });
}

function openCommands({ commands }: DeviceState, nowMs: number): Command[] {
  return commands.loaded.filter((command) => life.isOpen(command, nowMs)).slice(0, maxOpen);
}

function pendingCommands(state: DeviceState, nowMs: number): Command[] {
  return openCommands(state, nowMs).filter((command) => life.isPending(command, nowMs));
}

function changePending(state: DeviceState, nowMs: number, change: (command: Command) => Command): DeviceState {
  return pendingCommands(state, nowMs).reduce((next, { commandId }) => changeCommand(next, commandId, change), state);
}

/** The first publication goes to a device that seems to be away, too: not every broker reports connections. */
function attempts(state: DeviceState, nowMs: number): Command[] {
  const { isOnline } = state.presence.connection;
  if (state.identity.isDisabled || state.commands.inFlight.length > 0) return [];
  const isInTime = ({ expiresAtMs }: Command) => nowMs <= expiresAtMs - shortestLifeMs;
  return pendingCommands(state, nowMs).filter(
    (command) => (isOnline || command.publishedAtMs === null) && isInTime(command),
  );
}

/** What waits for the end of a publication goes on if the object is lost with it. */
function lostAtMs(state: DeviceState, nowMs: number): number {
  const isAwaited = pendingCommands(state, nowMs).length > 0 || state.lease.pending.length > 0;
  const lost = state.commands.inFlight.map(({ startedAtMs }) => startedAtMs + lostAfterMs);
  return Math.min(Infinity, ...lost.filter((atMs) => isAwaited && atMs > nowMs));
}

function withCommands(state: DeviceState, change: Partial<CommandsSlice>): DeviceState {
  return { ...state, commands: { ...state.commands, ...change } };
}

const keyIsTaken = refuse({
  kind: 'invalid_input',
  path: 'Idempotency-Key',
  problem: 'was used for another command',
});
