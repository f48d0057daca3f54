// The device core: `decide(device, event, nowMs)` is everything that a device's object does, as a pure function. It reads
// no clock, no storage and no configuration beside the state; what it wants done is in the effects.
import { topicActions } from '../../protocol/mqtt.ts';
import type { Actor, DeviceAction } from '../access.ts';
import { refuse, type Outcome, type Refusal } from '../refusal.ts';
import { matchesFilter, topicOf } from '../topics.ts';
import { rejectAll, resultOfAbsent } from './absent.ts';
import { activateAgain, activateFirst, restore } from './activation.ts';
import { administer, replaceCredentials } from './administration.ts';
import { adoptAlarm, planAlarm } from './alarm.ts';
import { logIn, noteConnection } from './broker-session.ts';
import { acceptRequest, applyPublication, cancelCommand, publishDue } from './commands.ts';
import { liveGenerations } from './credentials.ts';
import { connectAtEdge, takeEdgePackets } from './edge-packets.ts';
import { checkEdgeSession, endEdgeSession, endSocket } from './edge-session.ts';
import type { Effect } from './effects.ts';
import type { DeviceEvent, EventKind, EventOf, Ingested, Results } from './events.ts';
import { countDropped } from './floods.ts';
import { applyGuestUse, makeGuestLink, returnGuestUse, revokeGuestLink } from './guest-links.ts';
import { applyProductChange } from './identity.ts';
import { applyCoalesced, putAside, takeMessages, takeRelayMessage } from './inbox.ts';
import { answerTransfer, offerTransfer, release, setPairingWindow, withdrawTransfer } from './owner-change.ts';
import { applyDuePresence, noteAnnouncementEnd, planRetry } from './presence.ts';
import { noteProjectionEnd, planProjection } from './projection.ts';
import { askWhereDue, compareProjection, noteRecord, planRecordCheck } from './record-check.ts';
import { endOutdated, endRelaySessions } from './relay-sessions.ts';
import { refuseUnless } from './rights.ts';
import {
  addMember,
  changeMember,
  compareMembers,
  noteInvitation,
  noteMembersWritten,
  noteSubscriptionsEnded,
  planSharing,
  readersOf,
  removeMember,
} from './sharing.ts';
import type { DeviceState } from './state.ts';
import { addSubscription, removeSubscription } from './subscriptions.ts';

/** What a user asks for. */
type AskedKind = Extract<DeviceEvent, { actor: Actor }>['kind'];

/** `unused`: never provisioned. `deleted`: was, and never will be again. */
export type Device = DeviceState | 'unused' | 'deleted';

export type Decision<Kind extends EventKind = EventKind> = {
  state: Device;
  effects: Effect[];
  result: Results[Kind];
};

type Handler<Kind extends EventKind> = (
  state: DeviceState,
  event: EventOf<Kind>,
  nowMs: number,
  effects: Effect[],
) => { state: Device; result: Results[Kind] };

export function decide<Kind extends EventKind>(device: Device, event: EventOf<Kind>, nowMs: number): Decision<Kind> {
  const effects: Effect[] = [];
  const { state, result } = handle(device, event, nowMs, effects);
  if (typeof state === 'string') return { state, effects, result };
  const planned = planProjection(planRetry(state, nowMs), nowMs, effects);
  return { state: planAlarm(planSharing(planned, nowMs, effects), nowMs), effects, result };
}

function handle<Kind extends EventKind>(
  device: Device,
  event: EventOf<Kind>,
  nowMs: number,
  effects: Effect[],
): { state: Device; result: Results[Kind] } {
  // The table's type ties each kind to its handler, which the compiler does not follow for a generic kind.
  if (typeof device !== 'string')
    return (handlers[event.kind] as unknown as Handler<Kind>)(device, event, nowMs, effects);
  const decided = decideAbsent(device, event, nowMs);
  return { ...decided, result: decided.result as Results[Kind] };
}

/** Only an activation makes a device, or a record of one whose session was lost; never again a deleted one. */
function decideAbsent(device: 'unused' | 'deleted', event: DeviceEvent, nowMs: number) {
  if (event.kind === 'provisioned' && device === 'unused') return activateFirst(event, nowMs);
  if (event.kind === 'record_restored' && device === 'unused') return { state: restore(event, nowMs), result: null };
  return { state: device, result: resultOfAbsent(event) };
}

const handlers: { [Kind in EventKind]: Handler<Kind> } = {
  provisioned: activateAgain,

  login_attempted: logIn,

  connection_reported: noteConnection,

  edge_connected: connectAtEdge,

  edge_packets_received: takeEdgePackets,

  edge_ended: (state, { end }, nowMs, effects) => ({
    state: endEdgeSession(state, end, nowMs, effects),
    result: null,
  }),

  edge_checked: (state, { open }, nowMs, effects) => ({
    state: checkEdgeSession(state, open, nowMs, effects),
    result: null,
  }),

  messages_received: (state, { productKey, spoolId, messages }, nowMs, effects) => {
    if (productKey !== state.identity.productKey) return { state, result: rejectAll(messages.length) };
    const taken = takeMessages(state, spoolId, messages, nowMs, effects);
    const others: Ingested['others'] = [];
    for (const [position, result] of taken.results.entries()) {
      if (result.result !== 'accepted') others.push({ ...result, position });
    }
    const mayBeHeard = !state.identity.isDisabled && !state.credentials.isAwaitingLogin;
    const subscriptions = mayBeHeard ? taken.state.subscriptions : [];
    const generations = liveGenerations(state.credentials, nowMs);
    const readers = mayBeHeard ? readersOf(taken.state) : [];
    return { state: taken.state, result: { others, subscriptions, generations, readers } };
  },

  messages_dropped: (state, { count }, nowMs) => {
    return { state: { ...state, floods: countDropped(state.floods, count, nowMs) }, result: null };
  },

  message_put_aside: (state, { spoolId, seq }) => ({ state: putAside(state, spoolId, seq), result: null }),

  relay_message_received: (state, { productKey, generation, action, payload }, nowMs, effects) => {
    const { identity, credentials } = state;
    if (productKey !== identity.productKey) return { state, result: refuse(noDevice(state)) };
    if (identity.isDisabled) return { state, result: refuse(disabled(state)) };
    const generations = liveGenerations(credentials, nowMs);
    if (!generations.includes(generation)) {
      const problem = 'revoked';
      return { state, result: refuse({ kind: 'credential_refused', credential: 'session', problem }) };
    }
    const taken = takeRelayMessage(state, action, payload, nowMs, effects);
    if (taken === undefined) {
      const limit = 'deviceMessagesPerMinute';
      const counted = { ...state, floods: countDropped(state.floods, 1, nowMs) };
      return { state: counted, result: refuse({ kind: 'rate_limited', limit, retryAfterSeconds: 1 }) };
    }
    if (taken.result.result === 'accepted') {
      const { subscriptions } = state;
      effects.push({ kind: 'push', topic: topicOf(identity, action), payload, subscriptions, generations });
    }
    return { state: taken.state, result: { ok: true, value: taken.result } };
  },

  command_requested: allowed('control', acceptRequest),

  publication_ended: (state, event, nowMs, effects) => ({
    state: returnGuestUse(state, applyPublication(state, event, nowMs, effects), event.commandId, nowMs),
    result: null,
  }),

  cancel_requested: allowed('control', (state, { commandId }, nowMs) => cancelCommand(state, commandId, nowMs)),

  subscription_requested: (state, { actor, productKey, shard, filter }, nowMs) => {
    const refusal =
      refuseUnless(state, actor, 'readReports') ??
      (productKey === state.identity.productKey ? undefined : noDevice(state));
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const ignoresCommands = !matchesFilter(filter, topicOf(state.identity, topicActions.propertySet));
    const subscriptions = addSubscription(state.subscriptions, shard, ignoresCommands, nowMs);
    return { state: { ...state, subscriptions }, result: { ok: true, value: null } };
  },

  subscription_ended: (state, { shard, registrationId }) => {
    const subscriptions = removeSubscription(state.subscriptions, shard, registrationId);
    return { state: { ...state, subscriptions }, result: null };
  },

  administered: administer,

  credentials_replaced: allowed('replaceCredentials', replaceCredentials),

  released: allowed('transfer', (state, { defaultName }, nowMs, effects) =>
    release(state, defaultName, nowMs, effects),
  ),

  transfer_offered: allowed('transfer', (state, { offer, address }, nowMs) =>
    offerTransfer(state, offer, address, nowMs),
  ),

  transfer_withdrawn: allowed('transfer', (state, { address }, nowMs) => withdrawTransfer(state, address, nowMs)),

  transfer_answered: answerTransfer,

  pairing_window_set: allowed('pair', (state, { untilMs, address }, nowMs) =>
    setPairingWindow(state, untilMs, address, nowMs),
  ),

  member_joined: (state, event, nowMs) => addMember(state, event, nowMs),

  member_changed: allowed('share', changeMember),

  member_removed: (state, event, nowMs) => {
    const refusal = refuseUnless(state, event.actor, event.actor.userId === event.userId ? 'leave' : 'share');
    return refusal === undefined ? removeMember(state, event, nowMs) : { state, result: refuse(refusal) };
  },

  invitation_changed: (state, event, nowMs) => {
    // Whoever declines has no right on the device.
    const refusal = event.change === 'invitation_declined' ? undefined : refuseUnless(state, event.actor, 'share');
    return refusal === undefined ? noteInvitation(state, event, nowMs) : { state, result: refuse(refusal) };
  },

  guest_link_made: allowed('share', makeGuestLink),

  guest_link_revoked: allowed('share', revokeGuestLink),

  guest_link_used: applyGuestUse,

  members_written: (state, event, nowMs) => ({ state: noteMembersWritten(state, event, nowMs), result: null }),

  subscriptions_ended: (state, event, nowMs) => ({ state: noteSubscriptionsEnded(state, event, nowMs), result: null }),

  product_changed: (state, { facts }) => {
    return { state: { ...state, identity: applyProductChange(state.identity, facts) }, result: null };
  },

  deleted: (state, _event, nowMs, effects) => {
    endSocket(state, effects);
    endRelaySessions(state, 'deleted', nowMs, effects);
    return { state: 'deleted', result: null };
  },

  announcement_ended: (state, event, nowMs, effects) => ({
    state: noteAnnouncementEnd(state, event, nowMs, effects),
    result: null,
  }),

  projection_ended: (state, event, nowMs) => ({ state: noteProjectionEnd(state, event, nowMs), result: null }),

  record_checked: (state, { isThere }, nowMs, effects) => {
    const next = noteRecord(state, isThere, nowMs);
    if (next === 'deleted') {
      endSocket(state, effects);
      endRelaySessions(state, 'deleted', nowMs, effects);
      effects.push({ kind: 'delete_at_broker', productKey: state.identity.productKey });
    }
    return { state: next, result: null };
  },

  record_compared: (state, { projectionVersion, membersVersion }) => ({
    state: compareMembers(compareProjection(state, projectionVersion), membersVersion),
    result: null,
  }),

  record_restored: (state) => ({ state, result: null }),

  alarm_fired: (state, { scheduledAtMs }, nowMs, effects) => {
    const adopted = state.alarm.setAtMs === null ? adoptAlarm(state, scheduledAtMs, nowMs) : state;
    const fired = endOutdated({ ...adopted, alarm: { ...adopted.alarm, setAtMs: null } }, nowMs, effects);
    const settled = applyDuePresence(applyCoalesced(fired, nowMs, effects), nowMs, effects);
    const next = publishDue(settled, nowMs, effects);
    return { state: askWhereDue(planRecordCheck(next, nowMs), nowMs, effects), result: null };
  },
};

/** The handler, for who has the right. */
function allowed<Kind extends AskedKind>(action: DeviceAction, handleIt: Handler<Kind>): Handler<Kind> {
  return (state, event, nowMs, effects) => {
    const { actor } = event as { actor: Actor };
    const refusal = refuseUnless(state, actor, action);
    return refusal === undefined ? handleIt(state, event, nowMs, effects) : { state, result: refuse(refusal) };
  };
}

function noDevice({ identity }: DeviceState): Refusal {
  return { kind: 'not_found', what: 'device', id: identity.deviceId };
}

function disabled({ identity }: DeviceState): Refusal {
  return { kind: 'device_disabled', deviceId: identity.deviceId };
}

/** The refusal, or the value of a query on the state, which changes nothing. */
export function ask<T>(
  device: Device,
  actor: Actor,
  action: DeviceAction,
  query: (state: DeviceState) => T,
): Outcome<T> {
  if (typeof device === 'string') return refuse({ kind: 'not_found', what: 'device' });
  const refusal = refuseUnless(device, actor, action);
  return refusal === undefined ? { ok: true, value: query(device) } : refuse(refusal);
}
