// Takes the device's messages: each has its effect once, in order, and a message that cannot be handled never stops the
// next one. The high-water mark of a message is raised together with its effect. Pushes nothing to subscribers: the
// uplink does, a batch at a time.
import { droppedReason } from '../../../protocol/bridge.ts';
import { topicActions, type TopicAction } from '../../../protocol/mqtt.ts';
import { fingerprint } from '../../fingerprint.ts';
import { hourMs } from '../../time.ts';
import { applyReply, applyReturn, confirmByReport, isAwaitingReply } from '../commands/commands.ts';
import { countDropped, countRejection } from '../core/counts.ts';
import type { Decision } from '../core/events.ts';
import type { DeviceState } from '../core/state.ts';
import { applyPresence, isEcho, withConnection } from '../presence/announcements.ts';
import { admitMessage, coalesce, coalescedMessages, coalescedSlice, supersede } from './coalescing.ts';
import * as seen from './deduplication.ts';
import { sample } from '../usage/series.ts';
import { noteAnnounced, takeUpdateMessage } from '../firmware/updates.ts';
import { tellWatchers } from '../witness/watchers.ts';
import { seeOwnReport } from '../witness/witness.ts';
import { noteRejected, readMessage, type DeviceMessage, type InvalidReason } from './messages.ts';
import { pushMessage } from './subscriptions.ts';
import { applyReport, changedProperties } from './properties.ts';

export type InboundMessage = {
  seq: number;
  action: TopicAction;
  payload: string;
  /** Why there is no payload to read. */
  unreadable?: 'too_large' | 'not_text' | undefined;
  isDup: boolean;
  redeliveryOf?: number | undefined;
  isSoleReader: boolean;
  isRetained: boolean;
  receivedAtMs: number;
};

/** A message of the direct session; `payload` is undefined if it is no text. */
export type DirectInbound = { action: TopicAction; payload: string | undefined };

export type RejectionReason =
  InvalidReason | 'device_not_found' | 'device_disabled' | 'session_revoked' | typeof droppedReason | 'handling_failed';

/** `duplicate`: had its effect before under this number, `redelivery`: under another. A duplicate repeats its reason. */
export type MessageResult =
  | { result: 'accepted' | 'redelivery' | 'ignored' }
  | { result: 'duplicate'; reason?: RejectionReason }
  | { result: 'rejected'; reason: RejectionReason };

type Taken = { state: DeviceState; result: MessageResult };
type TakenBatch = { state: DeviceState; results: MessageResult[] };

export function takeMessages(
  state: DeviceState,
  spoolId: string,
  messages: readonly InboundMessage[],
  decision: Decision,
): TakenBatch {
  const { nowMs } = decision;
  let next = state;
  const results = messages.map((message): MessageResult => {
    const refusal = refusalOf(next, message);
    if (refusal?.result === 'rejected') {
      const admitted = admitMessage(next, Math.min(message.receivedAtMs, nowMs));
      const facts = { reason: refusal.reason, topic: message.action };
      next = admitted === undefined ? countDropped(next, 1, nowMs) : countRejection(admitted, facts, nowMs);
      return admitted === undefined ? dropped : refusal;
    }
    if (refusal !== undefined) return refusal;
    const outcome = takeSafely(spoolId, message.seq, decision, (own) => takeMessage(next, spoolId, message, own));
    next = outcome?.state ?? putAside(next, spoolId, message.seq, message.action, nowMs);
    return outcome?.result ?? handlingFailed;
  });
  return { state: next, results };
}

/** Undefined if the handling threw: then nothing of it counts. */
function takeSafely(
  spoolId: string,
  seq: number,
  decision: Decision,
  take: (own: Decision) => Taken,
): Taken | undefined {
  const { effects } = decision;
  const own: Decision = { ...decision, effects: [] };
  try {
    const outcome = take(own);
    effects.push(...own.effects);
    return outcome;
  } catch (error) {
    effects.push({ kind: 'log_failed_message', spoolId, seq, error });
    return undefined;
  }
}

export function putAside(state: DeviceState, spoolId: string, seq: number, topic: string, nowMs: number): DeviceState {
  const noted = { ...state, deduplication: seen.noteFailed(state.deduplication, spoolId, seq) };
  return countRejection(noted, { reason: 'handling_failed', topic }, nowMs);
}

/** A message of the device's own relay session, which says nothing about its session at the broker; undefined: too many. */
export function takeRelayMessage(
  state: DeviceState,
  action: TopicAction,
  payload: string,
  decision: Decision,
): Taken | undefined {
  const { nowMs } = decision;
  const admitted = admitMessage(state, nowMs);
  if (admitted === undefined) return undefined;
  const meaning = readMessage(action, payload);
  return applyMessage(noteRejected(admitted, meaning, { action, payload }, nowMs), meaning, nowMs, decision);
}

/** Messages of the device's direct session: no other way may bring them again. */
export function takeDirectMessages(
  state: DeviceState,
  messages: readonly DirectInbound[],
  decision: Decision,
): TakenBatch {
  let next = state;
  const results = messages.map(({ action, payload }, index): MessageResult => {
    const outcome = takeSafely('direct', index, decision, (own) => takeDirectMessage(next, action, payload, own));
    next = outcome?.state ?? countRejection(next, { reason: 'handling_failed', topic: action }, decision.nowMs);
    return outcome?.result ?? handlingFailed;
  });
  return { state: next, results };
}

function takeDirectMessage(
  state: DeviceState,
  action: TopicAction,
  payload: string | undefined,
  decision: Decision,
): Taken {
  const { nowMs } = decision;
  const meaning = payload === undefined ? notText : readMessage(action, payload);
  const admitted = isExpectedReply(state, meaning) ? state : admitMessage(state, nowMs);
  if (admitted === undefined) return { state: coalesce(state, meaning, nowMs, nowMs), result: dropped };
  // A will of an earlier session does not come this way.
  const isOwnWord = meaning.kind === 'status' && admitted.presence.connection.oldWillUntilMs !== null;
  const heard = isOwnWord ? withConnection(admitted, { oldWillUntilMs: null }) : admitted;
  const shown = noteRejected(heard, meaning, { action, payload: payload ?? '' }, nowMs);
  return applyFromDevice(shown, meaning, nowMs, decision);
}

/** What waited for a second because the device sends too many. Of a session that has ended meanwhile nothing counts. */
export function applyCoalesced(state: DeviceState, decision: Decision): DeviceState {
  const { coalesced, credentials, identity } = state;
  if ((coalesced.dueAtMs ?? Infinity) > decision.nowMs) return state;
  let next: DeviceState = { ...state, coalesced: coalescedSlice.initial };
  if (identity.isDisabled || credentials.isAwaitingLogin) return next;
  for (const { action, meaning, payload, atMs } of coalescedMessages(coalesced)) {
    if (atMs < credentials.acceptedFromMs) continue;
    next = applyFromDevice(next, meaning, atMs, decision).state;
    pushMessage(state, action, payload, decision);
  }
  return next;
}

type Refused = { result: 'ignored' } | { result: 'rejected'; reason: 'device_disabled' | 'session_revoked' };

function refusalOf(state: DeviceState, message: InboundMessage): Refused | undefined {
  const { identity, credentials } = state;
  const isMute = identity.isDisabled || credentials.isAwaitingLogin;
  // The service's own last announcement on a device that was disabled or re-keyed comes back like any other message.
  const isOwn = isMute && message.action === topicActions.status && isEcho(state, message.payload);
  if (isOwn) return { result: 'ignored' };
  if (!isMute && message.receivedAtMs >= credentials.acceptedFromMs) return undefined;
  return { result: 'rejected', reason: identity.isDisabled ? 'device_disabled' : 'session_revoked' };
}

function takeMessage(state: DeviceState, spoolId: string, message: InboundMessage, decision: Decision): Taken {
  const { nowMs } = decision;
  const { seq, action, payload, isDup, redeliveryOf, isSoleReader, receivedAtMs } = message;
  const { deduplication } = state;
  if (seen.isAtOrBelow(deduplication.marks, spoolId, seq))
    return { state, result: duplicateOf(state, spoolId, message) };
  const print = fingerprint(`${action}\n${payload}`);
  const delivery: seen.Delivery = { spoolId, seq, isDup, redeliveryOf, isSoleReader, receivedAtMs, fingerprint: print };
  if (seen.isRedelivery(deduplication, delivery)) {
    const noted = { ...state, deduplication: seen.noteRedelivery(deduplication, delivery) };
    return { state: noted, result: { result: 'redelivery' } };
  }
  const noted = { ...state, deduplication: seen.noteNew(deduplication, delivery) };
  // A retained message is old: the broker sends it to every new subscription. Only the status may be retained.
  if (message.isRetained) {
    const isAllowed = action === topicActions.status;
    const told = isAllowed ? noted : countRejection(noted, { reason: 'retained', topic: action }, nowMs);
    return { state: told, result: { result: 'ignored' } };
  }
  const meaning = meaningOf(message);
  if (meaning.kind === 'status' && isEcho(noted, payload)) return { state: noted, result: { result: 'ignored' } };
  const atMs = Math.min(receivedAtMs, nowMs);
  const admitted = isExpectedReply(noted, meaning) ? noted : admitMessage(noted, atMs);
  if (admitted === undefined) {
    const raised = { ...state, deduplication: seen.noteRedelivery(deduplication, delivery) };
    return { state: coalesce(raised, meaning, atMs, nowMs), result: dropped };
  }
  const shown = noteRejected(admitted, meaning, message, nowMs);
  if (meaning.kind === 'invalid' && (meaning.reason === 'too_large' || meaning.reason === 'not_text')) {
    return { state: shown, result: { result: 'rejected', reason: meaning.reason } };
  }
  return applyFromDevice(shown, meaning, atMs, decision);
}

/** A reply that a command waits for counts toward no limit: each command takes a single reply. */
function isExpectedReply(state: DeviceState, meaning: DeviceMessage): boolean {
  return meaning.kind === 'reply' && meaning.id !== undefined && isAwaitingReply(state, meaning.id);
}

function applyFromDevice(state: DeviceState, meaning: DeviceMessage, atMs: number, decision: Decision): Taken {
  // A message that cannot be read was still sent by the device.
  const event =
    meaning.kind === 'status'
      ? { kind: 'announced' as const, status: meaning.status, atMs }
      : { kind: 'message' as const, atMs };
  const present = applyPresence(state, event, decision);
  const applied = applyMessage(present.state, meaning, atMs, decision);
  if (!present.hasReturned) return applied;
  // After the message itself, which may be the reply that ends what would be published again.
  return { state: applyReturn(applied.state, decision), result: applied.result };
}

function applyMessage(before: DeviceState, meaning: DeviceMessage, atMs: number, decision: Decision): Taken {
  const state = supersede(before, meaning);
  switch (meaning.kind) {
    case 'invalid':
      return { state, result: { result: 'rejected', reason: meaning.reason } };
    case 'status':
      return {
        state: meaning.status === 'online' ? noteAnnounced(state, atMs) : state,
        result: { result: 'accepted' },
      };
    case 'update': {
      const taken = takeUpdateMessage(state, meaning, atMs, decision);
      // Nobody listens for what is asked of an image.
      return { state: taken, result: { result: meaning.about === 'get' ? 'ignored' : 'accepted' } };
    }
    case 'reply': {
      const { id, code } = meaning;
      const replied = id === undefined ? state : applyReply(state, id, code ?? null, decision);
      return { state: replied, result: { result: 'accepted' } };
    }
    case 'report': {
      const { properties: reported, timeMs } = meaning;
      const report = { reported, changed: changedProperties(state.properties.values, reported) };
      const confirmed = confirmByReport(state, report, decision.nowMs);
      // A report that was held up on its way says what was so before.
      const isHeldUp = timeMs !== undefined && timeMs < atMs && timeMs > atMs - longestDelayMs;
      const readAtMs = isHeldUp ? timeMs : atMs;
      const told = tellWatchers(seeOwnReport(confirmed, report, readAtMs, decision), report, readAtMs, decision);
      return { state: applyReport(sample(told, reported, atMs), report, atMs), result: { result: 'accepted' } };
    }
  }
}

/** A clock that is further behind is not believed. */
const longestDelayMs = hourMs;
const notText = { kind: 'invalid', reason: 'not_text' } as const;
const handlingFailed = { result: 'rejected', reason: 'handling_failed' } as const;
const dropped = { result: 'rejected', reason: droppedReason } as const;

function meaningOf({ action, payload, unreadable }: InboundMessage): DeviceMessage {
  return unreadable === undefined ? readMessage(action, payload) : { kind: 'invalid', reason: unreadable };
}

function duplicateOf(state: DeviceState, spoolId: string, message: InboundMessage) {
  const result = 'duplicate' as const;
  if (seen.hasFailed(state.deduplication, spoolId, message.seq)) return { result, reason: 'handling_failed' as const };
  const meaning = message.isRetained ? undefined : meaningOf(message);
  return meaning?.kind === 'invalid' ? { result, reason: meaning.reason } : { result };
}
