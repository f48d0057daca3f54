// The device core: `decide(device, event, nowMs)` is everything that a device's object does, as a pure function. It reads
// no clock, no storage and no configuration beside the state; what it wants done is in the effects.
import { topicActions } from '../../protocol/mqtt.ts';
import { loginRefusalReasonOf, refuse, type Outcome, type Refusal } from '../refusal.ts';
import type { RevokeCause } from '../revoke-cause.ts';
import { matchesFilter, topicOf, type DeviceIdentity } from '../topics.ts';
import { noneSpent } from './budget.ts';
import { nothingCoalesced } from './coalescing.ts';
import { adoptAlarm, noAlarm, planAlarm } from './alarm.ts';
import { acceptRequest, applyPublication, applyReturn, cancelCommand, noCommands, publishDue } from './commands.ts';
import {
  addPassword,
  firstCredentials,
  noteFirstUse,
  noteSession,
  noteRevocation,
  replacePasswords,
  validPasswords,
  type CredentialsSlice,
} from './credentials.ts';
import { noMessages } from './deduplication.ts';
import type { Effect } from './effects.ts';
import type { DeviceEvent, EventKind, Ingested, Results } from './events.ts';
import { countDropped } from './floods.ts';
import { applyProductChange } from './identity.ts';
import { applyCoalesced, putAside, takeMessages, takeRelayMessage } from './inbox.ts';
import { countLoginRefusal } from './login-refusals.ts';
import { applyDuePresence, applyPresence, noPresence, noteAnnouncementEnd, planRetry } from './presence.ts';
import { markProjectionBehind, noProjection, noteProjectionEnd, planProjection } from './projection.ts';
import { noProperties } from './properties.ts';
import { askWhereDue, compareProjection, noRecordCheck, noteRecord, planRecordCheck } from './record-check.ts';
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
  return { state: planAlarm(planned, nowMs), effects, result };
}

/** What a device that is not there answers. Only an activation makes one, and never again a deleted one. */
function decideAbsent(device: 'unused' | 'deleted', event: DeviceEvent, nowMs: number): Decision {
  if (event.kind === 'provisioned' && device === 'unused') {
    const { deviceId, settings, facts, secretDigest, passwordDigest } = event;
    const state: DeviceState = {
      settings,
      identity: { deviceId, ...facts, isDisabled: false },
      credentials: firstCredentials(secretDigest, passwordDigest, nowMs),
      presence: noPresence,
      projection: noProjection,
      properties: noProperties,
      commands: noCommands,
      subscriptions: [],
      deduplication: noMessages,
      loginRefusals: [],
      recordCheck: { ...noRecordCheck, confirmedAtMs: nowMs },
      floods: [],
      alarm: noAlarm,
      coalesced: nothingCoalesced,
      budgets: noneSpent,
      newHistory: [],
    };
    return { state, effects: [], result: { ok: true, value: { isNew: true } } };
  }
  return { state: device, effects: [], result: resultOfAbsent(event) };
}

function resultOfAbsent(event: DeviceEvent): Results[EventKind] {
  switch (event.kind) {
    case 'provisioned':
    case 'login_attempted':
    case 'relay_message_received':
    case 'command_requested':
    case 'cancel_requested':
    case 'subscription_requested':
    case 'administered':
    case 'credentials_replaced':
      return refuse({ kind: 'not_found', what: 'device' });
    case 'messages_received':
      return rejectAll(event.messages.length);
    case 'connection_reported':
    case 'messages_dropped':
    case 'message_put_aside':
    case 'publication_ended':
    case 'subscription_ended':
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
  provisioned: (state, event, nowMs) => {
    if (state.identity.isDisabled) return { state, result: refuse(disabled(state)) };
    const credentials = addPassword(state.credentials, event, nowMs);
    return { state: { ...state, credentials }, result: { ok: true, value: { isNew: false } } };
  },

  login_attempted: (state, event, nowMs, effects) => {
    const refusal = refuseLogin(state, event, nowMs);
    if (refusal !== undefined)
      return { state: noteRefusal(state, refusal, event.address, nowMs), result: refuse(refusal) };
    let next = withCredentials(state, noteFirstUse(state.credentials, event.matchedDigest ?? '', nowMs));
    if (event.relayShard === undefined) {
      if (next.credentials.isAwaitingLogin) {
        next = withCredentials(next, { ...next.credentials, isAwaitingLogin: false, acceptedFromMs: nowMs });
      }
      next = withCredentials(next, noteSession(next.credentials, event.matchedDigest ?? '', nowMs));
      next = planRecordCheck(applyPresenceAndReturn(next, { kind: 'authenticated' }, nowMs, effects), nowMs);
    } else {
      // What the device's own socket will subscribe to is not known here.
      next = { ...next, subscriptions: addSubscription(next.subscriptions, event.relayShard, false, nowMs) };
    }
    const { revocations } = next.credentials;
    return { state: next, result: { ok: true, value: { ...identityOf(next), revocations } } };
  },

  connection_reported: (state, { report }, nowMs, effects) => {
    // A revoked session may still end, but none may begin without a login.
    if (report.kind === 'connected' && state.credentials.isAwaitingLogin) return { state, result: null };
    const next = applyPresenceAndReturn(state, report, nowMs, effects);
    return { state: report.kind === 'connected' ? planRecordCheck(next, nowMs) : next, result: null };
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
    return { state: taken.state, result: { others, subscriptions, revocations: state.credentials.revocations } };
  },

  messages_dropped: (state, { count }, nowMs) => {
    return { state: { ...state, floods: countDropped(state.floods, count, nowMs) }, result: null };
  },

  message_put_aside: (state, { spoolId, seq }) => ({ state: putAside(state, spoolId, seq), result: null }),

  relay_message_received: (state, { productKey, revocations, action, payload }, nowMs, effects) => {
    const { identity, credentials } = state;
    if (productKey !== identity.productKey) return { state, result: refuse(noDevice(state)) };
    if (identity.isDisabled) return { state, result: refuse(disabled(state)) };
    if (credentials.revocations !== revocations) {
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
      effects.push({ kind: 'push', topic: topicOf(identity, action), payload, subscriptions, revocations });
    }
    return { state: taken.state, result: { ok: true, value: taken.result } };
  },

  command_requested: (state, event, nowMs, effects) => {
    const refusal = refuseUnlessOwner(state, event.userId);
    return refusal === undefined ? acceptRequest(state, event, nowMs, effects) : { state, result: refuse(refusal) };
  },

  publication_ended: (state, event, nowMs, effects) => ({
    state: applyPublication(state, event, nowMs, effects),
    result: null,
  }),

  cancel_requested: (state, { userId, commandId }, nowMs) => {
    const refusal = refuseUnlessOwner(state, userId);
    return refusal === undefined ? cancelCommand(state, commandId, nowMs) : { state, result: refuse(refusal) };
  },

  subscription_requested: (state, { userId, productKey, shard, filter }, nowMs) => {
    const refusal =
      refuseUnlessOwner(state, userId) ?? (productKey === state.identity.productKey ? undefined : noDevice(state));
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const ignoresCommands = !matchesFilter(filter, topicOf(state.identity, topicActions.propertySet));
    const subscriptions = addSubscription(state.subscriptions, shard, ignoresCommands, nowMs);
    return { state: { ...state, subscriptions }, result: { ok: true, value: null } };
  },

  subscription_ended: (state, { shard, registrationId }) => {
    const subscriptions = removeSubscription(state.subscriptions, shard, registrationId);
    return { state: { ...state, subscriptions }, result: null };
  },

  administered: (state, { userId, change }, nowMs, effects) => {
    const refusal = refuseUnlessOwner(state, userId);
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const isEnabled = state.identity.isDisabled && change.isDisabled === false;
    const credentials = isEnabled ? noteRevocation(state.credentials) : state.credentials;
    const changed = markProjectionBehind({ ...state, credentials, identity: { ...state.identity, ...change } }, true);
    // A disabled device is announced as offline, an enabled one as what it is.
    const next = applyPresence(changed, { kind: 'due' }, nowMs, effects).state;
    if (change.isDisabled === true) endRelaySessions(next, 'disabled', effects);
    const { name, isDisabled } = next.identity;
    return { state: next, result: { ok: true, value: { name, isDisabled } } };
  },

  credentials_replaced: (state, { userId, passwordDigest }, nowMs, effects) => {
    const refusal = refuseUnlessOwner(state, userId);
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const { asksAtLogin } = state.settings;
    const replaced = replacePasswords(state.credentials, passwordDigest, asksAtLogin, nowMs);
    const next = applyPresence(withCredentials(state, replaced), { kind: 'revoked' }, nowMs, effects).state;
    endRelaySessions(next, 'credentials rotated', effects);
    return { state: next, result: { ok: true, value: identityOf(next) } };
  },

  product_changed: (state, { facts }) => {
    return { state: { ...state, identity: applyProductChange(state.identity, facts) }, result: null };
  },

  deleted: (state, _event, _nowMs, effects) => {
    endRelaySessions(state, 'deleted', effects);
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
      endRelaySessions(state, 'deleted', effects);
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
    const fired = { ...adopted, alarm: { ...adopted.alarm, setAtMs: null } };
    const settled = applyDuePresence(applyCoalesced(fired, nowMs, effects), nowMs, effects);
    const next = publishDue(settled, nowMs, effects);
    return { state: askWhereDue(planRecordCheck(next, nowMs), nowMs, effects), result: null };
  },
};

function refuseLogin(state: DeviceState, event: EventOf<'login_attempted'>, nowMs: number): Refusal | undefined {
  const { credentials, identity } = state;
  if (event.productKey !== identity.productKey) return noDevice(state);
  const { deviceId } = identity;
  if (!event.isClientIdRight) return { kind: 'wrong_client_id', deviceId };
  const isValid = validPasswords(credentials, nowMs).some(({ digest }) => digest === event.matchedDigest);
  if (!isValid) {
    const problem = event.matchedDigest === undefined ? 'wrong' : 'revoked';
    return { kind: 'credential_refused', credential: 'messaging_password', problem, deviceId };
  }
  return identity.isDisabled ? disabled(state) : undefined;
}

function noteRefusal(state: DeviceState, refusal: Refusal, address: string | null, nowMs: number): DeviceState {
  const reason = loginRefusalReasonOf(refusal);
  if (reason === undefined) return state;
  return { ...state, loginRefusals: countLoginRefusal(state.loginRefusals, reason, address, nowMs) };
}

function applyPresenceAndReturn(
  state: DeviceState,
  event: Parameters<typeof applyPresence>[1],
  nowMs: number,
  effects: Effect[],
): DeviceState {
  const applied = applyPresence(state, event, nowMs, effects);
  return applied.hasReturned ? applyReturn(applied.state, nowMs, effects) : applied.state;
}

function refuseUnlessOwner({ identity }: DeviceState, userId: number): Refusal | undefined {
  return identity.ownerId === userId ? undefined : { kind: 'not_owner', of: 'device', id: identity.deviceId };
}

function endRelaySessions(state: DeviceState, cause: RevokeCause, effects: Effect[]): void {
  effects.push({ kind: 'end_relay_sessions', cause, shards: state.subscriptions.map(({ shard }) => shard) });
}

function rejectAll(count: number): Ingested {
  const others = Array.from({ length: count }, (_, position) => ({ ...unknownDevice, position }));
  return { others, subscriptions: [], revocations: 0 };
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

/** An outcome's refusal or a query's value, for queries on the state that change nothing. */
export function askOwner<T>(device: Device, userId: number, query: (state: DeviceState) => T): Outcome<T> {
  if (typeof device === 'string') return refuse({ kind: 'not_found', what: 'device' });
  const refusal = refuseUnlessOwner(device, userId);
  return refusal === undefined ? { ok: true, value: query(device) } : refuse(refusal);
}
