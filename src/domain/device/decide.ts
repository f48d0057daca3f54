// The device core: `decide(device, event, nowMs)` is everything that a device's object does, as a pure function. It reads
// no clock, no storage and no configuration beside the state; what it wants done is in the effects.
import { topicActions } from '../../protocol/mqtt.ts';
import { refusalOf, type Actor, type DeviceAction } from '../access.ts';
import { refuse, type Outcome, type Refusal } from '../refusal.ts';
import type { RevokeCause } from '../revoke-cause.ts';
import { matchesFilter, topicOf, type DeviceIdentity } from '../topics.ts';
import { noneSpent } from './budget.ts';
import { nothingCoalesced } from './coalescing.ts';
import { adoptAlarm, noAlarm, planAlarm } from './alarm.ts';
import { acceptRequest, applyPublication, applyReturn, cancelCommand, noCommands, publishDue } from './commands.ts';
import {
  dropEnded,
  endGenerations,
  firstCredentials,
  liveGenerations,
  nextEndMs,
  noteUse,
  replacePasswords,
  type CredentialsSlice,
} from './credentials.ts';
import { noMessages } from './deduplication.ts';
import { connectAtEdge, takeEdgePackets } from './edge-packets.ts';
import {
  checkEdgeSession,
  closeEdgeSession,
  endEdgeSession,
  endSocket,
  leaveEdge,
  noEdgeSession,
  revokeEdgeSession,
} from './edge-session.ts';
import type { Effect } from './effects.ts';
import type { DeviceEvent, EventKind, Ingested, Results } from './events.ts';
import { countDropped } from './floods.ts';
import { applyProductChange } from './identity.ts';
import {
  activateAgain,
  answerTransfer,
  markOwnerChanged,
  offerTransfer,
  release,
  setPairingWindow,
  withdrawTransfer,
} from './owner-change.ts';
import { countActivation, judgeActivation, noOwnership, note } from './ownership.ts';
import { applyCoalesced, putAside, takeMessages, takeRelayMessage } from './inbox.ts';
import { noteRefusal, noteSessionLogin, refuseLogin } from './login.ts';
import { applyDuePresence, applyPresence, noPresence, noteAnnouncementEnd, planRetry } from './presence.ts';
import { markProjectionBehind, noProjection, noteProjectionEnd, planProjection } from './projection.ts';
import { noProperties } from './properties.ts';
import { askWhereDue, compareProjection, noRecordCheck, noteRecord, planRecordCheck } from './record-check.ts';
import {
  addMember,
  changeMember,
  noteMembersWritten,
  noteSubscriptionsEnded,
  notShared,
  ownershipOf,
  planSharing,
  readersOf,
  removeMember,
} from './sharing.ts';
import type { DeviceState } from './state.ts';
import { addSubscription, removeSubscription } from './subscriptions.ts';

/** `unused`: never provisioned. `deleted`: was, and never will be again. */
export type Device = DeviceState | 'unused' | 'deleted';

export type Decision<Kind extends EventKind = EventKind> = {
  state: Device;
  effects: Effect[];
  result: Results[Kind];
};

type EventOf<Kind extends EventKind> = Extract<DeviceEvent, { kind: Kind }>;
type Handled<Kind extends EventKind> = { state: DeviceState | 'deleted'; result: Results[Kind] };
type Handler<Kind extends EventKind> = (
  state: DeviceState,
  event: EventOf<Kind>,
  nowMs: number,
  effects: Effect[],
) => Handled<Kind>;

export function decide<Kind extends EventKind>(device: Device, event: EventOf<Kind>, nowMs: number): Decision<Kind> {
  if (typeof device === 'string') return decideAbsent(device, event, nowMs) as Decision<Kind>;
  const effects: Effect[] = [];
  // The table's type ties each kind to its handler, which the compiler does not follow for a generic kind.
  const handle = handlers[event.kind] as unknown as Handler<Kind>;
  const { state, result } = handle(device, event, nowMs, effects);
  if (state === 'deleted') return { state, effects, result };
  const planned = planProjection(planRetry(state, nowMs), nowMs, effects);
  return { state: planAlarm(planSharing(planned, nowMs, effects), nowMs), effects, result };
}

/** What a device that is not there answers. Only an activation makes one, and never again a deleted one. */
function decideAbsent(device: 'unused' | 'deleted', event: DeviceEvent, nowMs: number): Decision {
  if (event.kind === 'provisioned' && device === 'unused') return activateFirst(event, nowMs);
  return { state: device, effects: [], result: resultOfAbsent(event) };
}

/** A serial that is new, or whose session was lost: then what D1 knows of its owner still counts. */
function activateFirst(event: EventOf<'provisioned'>, nowMs: number): Decision<'provisioned'> {
  const { deviceId, settings, facts, address, claimantId } = event;
  if (facts.isDisabled) return { state: 'unused', effects: [], result: refuse({ kind: 'device_disabled', deviceId }) };
  if (facts.claimedAtMs !== null) {
    const judged = judgeActivation({ identity: facts, ownership: noOwnership }, event, nowMs);
    if (!judged.isAllowed) {
      const refusal = { kind: 'reactivation_refused', deviceId, because: judged.reason } as const;
      return { state: 'unused', effects: [], result: refuse(refusal) };
    }
  }
  const isClaim = claimantId !== undefined && facts.claimedAtMs === null;
  const owner = isClaim ? { ownerId: claimantId, claimedAtMs: nowMs } : {};
  const made: DeviceState = {
    settings,
    identity: { deviceId, ...facts, ...owner },
    ownership: noOwnership,
    edge: noEdgeSession,
    credentials: firstCredentials(event, nowMs),
    presence: noPresence,
    projection: noProjection,
    properties: noProperties,
    commands: noCommands,
    subscriptions: [],
    deduplication: noMessages,
    loginRefusals: [],
    activations: [],
    recordCheck: { ...noRecordCheck, confirmedAtMs: nowMs },
    floods: [],
    lastRejected: null,
    sharing: notShared,
    alarm: noAlarm,
    coalesced: nothingCoalesced,
    budgets: noneSpent,
    newHistory: [],
  };
  const counted = countActivation(made, { status: 'activated', reason: 'first' }, address, nowMs);
  const result = { ok: true, value: { isNew: true, endsSessions: false } } as const;
  if (!isClaim) return { state: counted, effects: [], result };
  const effects: Effect[] = [];
  const claimed = markOwnerChanged(note(counted, 'claimed', address, nowMs));
  return { state: planAlarm(planProjection(claimed, nowMs, effects), nowMs), effects, result };
}

function resultOfAbsent(event: DeviceEvent): Results[EventKind] {
  switch (event.kind) {
    case 'provisioned':
    case 'login_attempted':
    case 'edge_connected':
    case 'relay_message_received':
    case 'command_requested':
    case 'cancel_requested':
    case 'subscription_requested':
    case 'administered':
    case 'credentials_replaced':
    case 'member_joined':
    case 'member_changed':
    case 'member_removed':
    case 'released':
    case 'transfer_offered':
    case 'transfer_withdrawn':
    case 'transfer_answered':
    case 'pairing_window_set':
      return refuse({ kind: 'not_found', what: 'device' });
    case 'messages_received':
      return rejectAll(event.messages.length);
    case 'edge_packets_received':
      return { results: event.messages.map(() => unknownDevice), subscriptions: [], generations: [], readers: [] };
    case 'edge_ended':
    case 'edge_checked':
    case 'connection_reported':
    case 'messages_dropped':
    case 'message_put_aside':
    case 'publication_ended':
    case 'subscription_ended':
    case 'members_written':
    case 'subscriptions_ended':
    case 'product_changed':
    case 'deleted':
    case 'announcement_ended':
    case 'projection_ended':
    case 'record_checked':
    case 'record_compared':
    case 'alarm_fired':
      return null;
  }
}

const handlers: { [Kind in EventKind]: Handler<Kind> } = {
  provisioned: activateAgain,

  login_attempted: (state, event, nowMs, effects) => {
    const refusal = refuseLogin(state, event, nowMs);
    if (refusal !== undefined)
      return { state: noteRefusal(state, refusal, event.address, nowMs), result: refuse(refusal) };
    const digest = event.matchedDigest ?? '';
    let next;
    if (event.relayShard === undefined) {
      next = noteSessionLogin(state, digest, event.address, nowMs);
      // Where the broker reports connections, that report ends a session at the edge.
      if (!state.settings.reportsConnections) next = leaveEdge(next, effects);
      next = planRecordCheck(applyPresenceAndReturn(next, { kind: 'authenticated' }, nowMs, effects), nowMs);
    } else {
      next = withCredentials(state, noteUse(state.credentials, digest, nowMs));
      // What the device's own socket will subscribe to is not known here.
      next = { ...next, subscriptions: addSubscription(next.subscriptions, event.relayShard, false, nowMs) };
    }
    const generation = next.credentials.passwords.find((one) => one.digest === digest)?.generation ?? 0;
    return { state: next, result: { ok: true, value: { ...identityOf(next), generation } } };
  },

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

  connection_reported: (state, { report }, nowMs, effects) => {
    if (report.kind !== 'connected') {
      // What a broker knows of the device's earlier sessions says nothing about the one here.
      if (state.edge.session !== null) return { state, result: null };
      return { state: applyPresenceAndReturn(state, report, nowMs, effects), result: null };
    }
    const isOverHere = state.edge.session === null || report.sessionStartedAtMs > state.edge.session.startedAtMs;
    // A revoked session may still end, but none may begin without a login.
    if (state.credentials.isAwaitingLogin || !isOverHere) return { state, result: null };
    const next = applyPresenceAndReturn(leaveEdge(state, effects), report, nowMs, effects);
    return { state: planRecordCheck(next, nowMs), result: null };
  },

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

  command_requested: (state, event, nowMs, effects) => {
    const refusal = refuseUnless(state, event.actor, 'control');
    return refusal === undefined ? acceptRequest(state, event, nowMs, effects) : { state, result: refuse(refusal) };
  },

  publication_ended: (state, event, nowMs, effects) => ({
    state: applyPublication(state, event, nowMs, effects),
    result: null,
  }),

  cancel_requested: (state, { actor, commandId }, nowMs) => {
    const refusal = refuseUnless(state, actor, 'control');
    return refusal === undefined ? cancelCommand(state, commandId, nowMs) : { state, result: refuse(refusal) };
  },

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

  administered: (state, { actor, change }, nowMs, effects) => {
    const refusal =
      (change.name !== undefined || change.isDisabled === undefined
        ? refuseUnless(state, actor, 'rename')
        : undefined) ?? (change.isDisabled === undefined ? undefined : refuseUnless(state, actor, 'disable'));
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const isEnabled = state.identity.isDisabled && change.isDisabled === false;
    const credentials = isEnabled ? endGenerations(state.credentials) : state.credentials;
    const changed = markProjectionBehind({ ...state, credentials, identity: { ...state.identity, ...change } }, true);
    // A disabled device is announced as offline, an enabled one as what it is.
    const ended = change.isDisabled === true ? closeEdgeSession(changed, 'disabled', nowMs, effects) : changed;
    const next = applyPresence(ended, { kind: 'due' }, nowMs, effects).state;
    if (change.isDisabled === true) endRelaySessions(next, 'disabled', nowMs, effects);
    const { name, isDisabled } = next.identity;
    return { state: next, result: { ok: true, value: { name, isDisabled } } };
  },

  credentials_replaced: (state, { actor, passwordDigest, address }, nowMs, effects) => {
    const refusal = refuseUnless(state, actor, 'replaceCredentials');
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const { asksAtLogin } = state.settings;
    const { secretDigest } = state.credentials;
    const replaced = replacePasswords(state.credentials, { secretDigest, passwordDigest }, asksAtLogin, nowMs);
    const next = revokeEdgeSession(withCredentials(state, replaced), nowMs, effects);
    endRelaySessions(next, 'credentials rotated', nowMs, effects);
    const noted = note(next, 'credentials_replaced', address, nowMs);
    return { state: noted, result: { ok: true, value: identityOf(next) } };
  },

  released: (state, { actor, defaultName }, nowMs, effects) => {
    const refusal = refuseUnless(state, actor, 'transfer');
    return refusal === undefined ? release(state, defaultName, nowMs, effects) : { state, result: refuse(refusal) };
  },

  transfer_offered: (state, { actor, offer, address }, nowMs) => {
    const refusal = refuseUnless(state, actor, 'transfer');
    return refusal === undefined ? offerTransfer(state, offer, address, nowMs) : { state, result: refuse(refusal) };
  },

  transfer_withdrawn: (state, { actor, address }, nowMs) => {
    const refusal = refuseUnless(state, actor, 'transfer');
    return refusal === undefined ? withdrawTransfer(state, address, nowMs) : { state, result: refuse(refusal) };
  },

  transfer_answered: answerTransfer,

  pairing_window_set: (state, { actor, untilMs, address }, nowMs) => {
    const refusal = refuseUnless(state, actor, 'pair');
    return refusal === undefined
      ? setPairingWindow(state, untilMs, address, nowMs)
      : { state, result: refuse(refusal) };
  },

  member_joined: (state, event, nowMs) => addMember(state, event, nowMs),

  member_changed: (state, { actor, ...change }) => {
    const refusal = refuseUnless(state, actor, 'share');
    return refusal === undefined ? changeMember(state, change) : { state, result: refuse(refusal) };
  },

  member_removed: (state, { actor, userId }) => {
    const refusal = refuseUnless(state, actor, actor.userId === userId ? 'leave' : 'share');
    return refusal === undefined ? removeMember(state, userId) : { state, result: refuse(refusal) };
  },

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

  record_compared: (state, { projectionVersion }) => ({
    state: compareProjection(state, projectionVersion),
    result: null,
  }),

  alarm_fired: (state, { scheduledAtMs }, nowMs, effects) => {
    const adopted = state.alarm.setAtMs === null ? adoptAlarm(state, scheduledAtMs, nowMs) : state;
    const fired = endOutdated({ ...adopted, alarm: { ...adopted.alarm, setAtMs: null } }, nowMs, effects);
    const settled = applyDuePresence(applyCoalesced(fired, nowMs, effects), nowMs, effects);
    const next = publishDue(settled, nowMs, effects);
    return { state: askWhereDue(planRecordCheck(next, nowMs), nowMs, effects), result: null };
  },
};

function applyPresenceAndReturn(
  state: DeviceState,
  event: Parameters<typeof applyPresence>[1],
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const applied = applyPresence(state, event, nowMs, effects);
  return applied.hasReturned ? applyReturn(applied.state, nowMs, effects) : applied.state;
}

function refuseUnless(state: DeviceState, actor: Actor, action: DeviceAction): Refusal | undefined {
  return refusalOf(ownershipOf(state), actor, action);
}

/** Those of credentials that are not valid any more: all of them where the device is disabled or deleted. */
function endRelaySessions(state: DeviceState, cause: RevokeCause, nowMs: number, effects: Effect[]): void {
  const generations = cause === 'credentials rotated' ? liveGenerations(state.credentials, nowMs) : [];
  const shards = state.subscriptions.map(({ shard }) => shard);
  effects.push({ kind: 'end_relay_sessions', cause, shards, generations });
}

/** A password that has ended by time ends the relay sessions that were opened with it. */
function endOutdated(state: DeviceState, nowMs: number, effects: Effect[]): DeviceState {
  if (nextEndMs(state.credentials) > nowMs) return state;
  const next = { ...state, credentials: dropEnded(state.credentials, nowMs) };
  endRelaySessions(next, 'credentials rotated', nowMs, effects);
  return next;
}

function rejectAll(count: number): Ingested {
  const others = Array.from({ length: count }, (_, position) => ({ ...unknownDevice, position }));
  return { others, subscriptions: [], generations: [], readers: [] };
}

const unknownDevice = { result: 'rejected', reason: 'device_not_found' } as const;

function identityOf({ identity: { productKey, deviceId } }: DeviceState): DeviceIdentity {
  return { productKey, deviceId };
}

function noDevice({ identity }: DeviceState): Refusal {
  return { kind: 'not_found', what: 'device', id: identity.deviceId };
}

function disabled({ identity }: DeviceState): Refusal {
  return { kind: 'device_disabled', deviceId: identity.deviceId };
}

function withCredentials(state: DeviceState, credentials: CredentialsSlice): DeviceState {
  return credentials === state.credentials ? state : { ...state, credentials };
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
