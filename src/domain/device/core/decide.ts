// The device core: `decide(device, event, nowMs)` is everything that a device's object does, as a pure function. It reads
// no clock, no storage and no configuration beside the state; what it wants done is in the effects.
import { topicActions } from '../../../protocol/mqtt.ts';
import type { Actor, DeviceAction } from '../../access.ts';
import { refuse, type Outcome, type Refusal } from '../../refusal.ts';
import { matchesFilter, topicOf } from '../../topics.ts';
import { acceptRequest, applyPublication, cancelCommand, publishDue } from '../commands/commands.ts';
import { applyGuestUse, makeGuestLink, returnGuestUse, revokeGuestLink } from '../commands/guest-links.ts';
import { applyCoalesced, putAside, takeMessages, takeRelayMessage } from '../messages/inbox.ts';
import { activateAgain, activateFirst, restore } from '../ownership/activation.ts';
import {
  administer,
  answerTransfer,
  offerTransfer,
  release,
  replaceCredentials,
  setPairingWindow,
  withdrawTransfer,
} from '../ownership/administration.ts';
import { endOutdated, endRelaySessions, liveGenerations } from '../ownership/credentials.ts';
import { applyProductChange } from '../ownership/ownership.ts';
import {
  addMember,
  changeMember,
  compareMembers,
  noteInvitation,
  noteMembersWritten,
  noteSubscriptionsEnded,
  planSharing,
  readersOf,
  refuseUnless,
  removeMember,
} from '../ownership/sharing.ts';
import { applyDuePresence, noteAnnouncementEnd, planRetry } from '../presence/announcements.ts';
import { logIn, noteConnection } from '../presence/broker-session.ts';
import {
  checkEdgeSession,
  connectAtEdge,
  endEdgeSession,
  endSocket,
  takeEdgePackets,
} from '../presence/direct-session.ts';
import {
  askWhereDue,
  compareProjection,
  noteProjectionEnd,
  noteRecord,
  planProjection,
  planRecordCheck,
} from '../presence/projection.ts';
import { addSubscription, removeSubscription } from '../messages/subscriptions.ts';
import { countDropped } from './counts.ts';
import type { Decision, Effect } from './effects.ts';
import {
  rejectAll,
  resultOfAbsent,
  type DeviceEvent,
  type EventKind,
  type EventOf,
  type Ingested,
  type Results,
} from './events.ts';
import { adoptAlarm, planAlarm, type DeviceState } from './state.ts';

/** What a user asks for. */
type AskedKind = Extract<DeviceEvent, { actor: Actor }>['kind'];

/** `unused`: never provisioned. `deleted`: was, and never will be again. */
export type Device = DeviceState | 'unused' | 'deleted';

export type Decided<Kind extends EventKind = EventKind> = {
  state: Device;
  effects: Effect[];
  result: Results[Kind];
};

type Handler<Kind extends EventKind> = (
  state: DeviceState,
  event: EventOf<Kind>,
  decision: Decision,
) => { state: Device; result: Results[Kind] };

export function decide<Kind extends EventKind>(device: Device, event: EventOf<Kind>, nowMs: number): Decided<Kind> {
  const effects: Effect[] = [];
  const decision = { nowMs, effects };
  const { state, result } = handle(device, event, decision);
  if (typeof state === 'string') return { state, effects, result };
  const planned = planProjection(planRetry(state, nowMs), decision);
  return { state: planAlarm(planSharing(planned, decision), nowMs), effects, result };
}

function handle<Kind extends EventKind>(
  device: Device,
  event: EventOf<Kind>,
  decision: Decision,
): { state: Device; result: Results[Kind] } {
  // The table's type ties each kind to its handler, which the compiler does not follow for a generic kind.
  if (typeof device !== 'string') return (handlers[event.kind] as unknown as Handler<Kind>)(device, event, decision);
  const decided = decideAbsent(device, event, decision.nowMs);
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

  edge_ended: (state, { end }, decision) => ({
    state: endEdgeSession(state, end, decision),
    result: null,
  }),

  edge_checked: (state, { open }, decision) => ({
    state: checkEdgeSession(state, open, decision),
    result: null,
  }),

  messages_received: (state, { productKey, spoolId, messages }, decision) => {
    if (productKey !== state.identity.productKey) return { state, result: rejectAll(messages.length) };
    const taken = takeMessages(state, spoolId, messages, decision);
    const others: Ingested['others'] = [];
    for (const [position, result] of taken.results.entries()) {
      if (result.result !== 'accepted') others.push({ ...result, position });
    }
    const mayBeHeard = !state.identity.isDisabled && !state.credentials.isAwaitingLogin;
    const subscriptions = mayBeHeard ? taken.state.subscriptions : [];
    const generations = liveGenerations(state.credentials, decision.nowMs);
    const readers = mayBeHeard ? readersOf(taken.state) : [];
    return { state: taken.state, result: { others, subscriptions, generations, readers } };
  },

  messages_dropped: (state, { count }, { nowMs }) => {
    return { state: countDropped(state, count, nowMs), result: null };
  },

  message_put_aside: (state, { spoolId, seq }) => ({ state: putAside(state, spoolId, seq), result: null }),

  relay_message_received: (state, { productKey, generation, action, payload }, decision) => {
    const { identity, credentials } = state;
    if (productKey !== identity.productKey) return { state, result: refuse(noDevice(state)) };
    if (identity.isDisabled) return { state, result: refuse(disabled(state)) };
    const generations = liveGenerations(credentials, decision.nowMs);
    if (!generations.includes(generation)) {
      const problem = 'revoked';
      return { state, result: refuse({ kind: 'credential_refused', credential: 'session', problem }) };
    }
    const taken = takeRelayMessage(state, action, payload, decision);
    if (taken === undefined) {
      const limit = 'deviceMessagesPerMinute';
      const counted = countDropped(state, 1, decision.nowMs);
      return { state: counted, result: refuse({ kind: 'rate_limited', limit, retryAfterSeconds: 1 }) };
    }
    if (taken.result.result === 'accepted') {
      const { subscriptions } = state;
      decision.effects.push({ kind: 'push', topic: topicOf(identity, action), payload, subscriptions, generations });
    }
    return { state: taken.state, result: { ok: true, value: taken.result } };
  },

  command_requested: allowed('control', acceptRequest),

  publication_ended: (state, event, decision) => ({
    state: returnGuestUse(state, applyPublication(state, event, decision), event.commandId, decision.nowMs),
    result: null,
  }),

  cancel_requested: allowed('control', (state, { commandId }, { nowMs }) => cancelCommand(state, commandId, nowMs)),

  subscription_requested: (state, { actor, productKey, shard, filter }, { nowMs }) => {
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

  released: allowed('transfer', (state, { defaultName }, decision) => release(state, defaultName, decision)),

  transfer_offered: allowed('transfer', (state, { offer, address }, { nowMs }) =>
    offerTransfer(state, offer, address, nowMs),
  ),

  transfer_withdrawn: allowed('transfer', (state, { address }, { nowMs }) => withdrawTransfer(state, address, nowMs)),

  transfer_answered: answerTransfer,

  pairing_window_set: allowed('pair', (state, { untilMs, address }, { nowMs }) =>
    setPairingWindow(state, untilMs, address, nowMs),
  ),

  member_joined: (state, event, { nowMs }) => addMember(state, event, nowMs),

  member_changed: allowed('share', changeMember),

  member_removed: (state, event, { nowMs }) => {
    const refusal = refuseUnless(state, event.actor, event.actor.userId === event.userId ? 'leave' : 'share');
    return refusal === undefined ? removeMember(state, event, nowMs) : { state, result: refuse(refusal) };
  },

  invitation_changed: (state, event, { nowMs }) => {
    // Whoever declines has no right on the device.
    const refusal = event.change === 'invitation_declined' ? undefined : refuseUnless(state, event.actor, 'share');
    return refusal === undefined ? noteInvitation(state, event, nowMs) : { state, result: refuse(refusal) };
  },

  guest_link_made: allowed('share', makeGuestLink),

  guest_link_revoked: allowed('share', revokeGuestLink),

  guest_link_used: applyGuestUse,

  members_written: (state, event, { nowMs }) => ({ state: noteMembersWritten(state, event, nowMs), result: null }),

  subscriptions_ended: (state, event, { nowMs }) => ({
    state: noteSubscriptionsEnded(state, event, nowMs),
    result: null,
  }),

  product_changed: (state, { facts }) => {
    return { state: { ...state, identity: applyProductChange(state.identity, facts) }, result: null };
  },

  deleted: (state, _event, decision) => {
    endSocket(state, decision);
    endRelaySessions(state, 'deleted', decision);
    return { state: 'deleted', result: null };
  },

  announcement_ended: (state, event, decision) => ({
    state: noteAnnouncementEnd(state, event, decision),
    result: null,
  }),

  projection_ended: (state, event, { nowMs }) => ({ state: noteProjectionEnd(state, event, nowMs), result: null }),

  record_checked: (state, { isThere }, decision) => {
    const next = noteRecord(state, isThere, decision.nowMs);
    if (next === 'deleted') {
      endSocket(state, decision);
      endRelaySessions(state, 'deleted', decision);
      decision.effects.push({ kind: 'delete_at_broker', productKey: state.identity.productKey });
    }
    return { state: next, result: null };
  },

  record_compared: (state, { projectionVersion, membersVersion }) => ({
    state: compareMembers(compareProjection(state, projectionVersion), membersVersion),
    result: null,
  }),

  record_restored: (state) => ({ state, result: null }),

  alarm_fired: (state, { scheduledAtMs }, decision) => {
    const adopted = state.alarm.setAtMs === null ? adoptAlarm(state, scheduledAtMs, decision.nowMs) : state;
    const fired = endOutdated({ ...adopted, alarm: { ...adopted.alarm, setAtMs: null } }, decision);
    const settled = applyDuePresence(applyCoalesced(fired, decision), decision);
    const next = publishDue(settled, decision);
    return { state: askWhereDue(planRecordCheck(next, decision.nowMs), decision), result: null };
  },
};

/** The handler, for who has the right. */
function allowed<Kind extends AskedKind>(action: DeviceAction, handleIt: Handler<Kind>): Handler<Kind> {
  return (state, event, decision) => {
    const { actor } = event as { actor: Actor };
    const refusal = refuseUnless(state, actor, action);
    return refusal === undefined ? handleIt(state, event, decision) : { state, result: refuse(refusal) };
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
