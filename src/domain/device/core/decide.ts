// The device core: `decide(device, event, nowMs)` is everything that a device's object does, as a pure function. It reads
// no clock, no storage and no configuration beside the state; what it wants done is in the effects.
import { topicActions } from '../../../protocol/mqtt.ts';
import type { Actor, DeviceAction } from '../../access.ts';
import { accept, refuse, type Outcome, type Refusal } from '../../refusal.ts';
import { matchesFilter, topicOf } from '../../topics.ts';
import { acceptRequest, applyGiverCheck, applyPublication, cancelCommand, publishDue } from '../commands/commands.ts';
import * as guests from '../commands/guest-links.ts';
import { applyCoalesced, putAside, takeMessages, takeRelayMessage } from '../messages/inbox.ts';
import { activateAgain, activateFirst, restore } from '../ownership/activation.ts';
import * as administration from '../ownership/administration.ts';
import { arrive, importDevice } from '../ownership/arrival.ts';
import { endOutdated, endRelaySessions, liveGenerations } from '../ownership/credentials.ts';
import { applyProductChange } from '../ownership/ownership.ts';
import * as sharing from '../ownership/sharing.ts';
import { applyDuePresence, noteAnnouncementEnd, planRetry } from '../presence/announcements.ts';
import * as sessions from '../presence/sessions.ts';
import * as projection from '../presence/projection.ts';
import { addSubscription, pushMessage, removeSubscription } from '../messages/subscriptions.ts';
import { settleRuns } from '../times/ledger.ts';
import { revokeLease } from '../times/lease.ts';
import { changeSchedule, putSchedule, runDue, runNow } from '../times/schedules.ts';
import { noteUsage } from '../usage/usage.ts';
import { judgeWitness, noteAsked, takeReading } from '../witness/outcomes.ts';
import { endWatcher, readForWatcher, setWatcher } from '../witness/watchers.ts';
import { checkIn, setWitness } from '../witness/witness.ts';
import { clearAlerts, noteAlerts, noteInboxTold } from './alerts.ts';
import { followUpdate, noteFetch, offerUpdate, postponeUpdate } from '../firmware/updates.ts';
import { countDropped, countRejection } from './counts.ts';
import { planNotices, tellDeleted } from './notices.ts';
import { endCommands, noteEvents, noteTaken, noWebhooks, redeliver } from './outgoing.ts';
import type {
  Decision,
  Effect,
  DeviceEvent,
  EventKind,
  EventOf,
  Handler,
  Ingested,
  ReportKind,
  RequestedKind,
  Results,
} from './events.ts';
import { adoptAlarm, newState, planAlarm, type DeviceState } from './state.ts';

type AskedKind = Extract<DeviceEvent, { actor: Actor }>['kind'];

/** `unused`: never provisioned. `deleted`: was, and never will be again. */
export type Device = DeviceState | 'unused' | 'deleted';

export function decide<Kind extends EventKind>(
  device: Device,
  event: EventOf<Kind>,
  nowMs: number,
  newCommand: Decision['newCommand'],
  webhooksOf: Decision['webhooksOf'] = () => noWebhooks,
): { state: Device; effects: Effect[]; result: Results[Kind] } {
  const effects: Effect[] = [];
  const decision = { nowMs, effects, newCommand, webhooksOf };
  const handled = typeof device === 'string' ? decideAbsent(device, event, nowMs) : handle(device, event, decision);
  // The tables tie each kind to its result, which the compiler does not follow for a generic kind.
  const result = handled.result as Results[Kind];
  if (event.kind === 'record_imported' && typeof handled.state !== 'string') {
    // What it brings was told before.
    const behind = sharing.planSharing(projection.planProjection(handled.state, decision), decision);
    return { state: planAlarm(behind, nowMs), effects, result };
  }
  const state = typeof handled.state === 'string' ? handled.state : arrive(handled.state);
  if (typeof state === 'string') {
    if (typeof device !== 'string') {
      tellDeleted(device, decision);
      clearAlerts(device, decision);
    }
    return { state, effects, result };
  }
  const before = typeof device === 'string' ? newState(state.settings) : device;
  const { state: settled, ended } = endCommands(
    before,
    settleRuns(judgeWitness(followUpdate(before, state, decision), decision), nowMs),
    nowMs,
  );
  const { scheduledAtMs = null } = event as { scheduledAtMs?: number };
  const used = noteUsage(before, settled, ended, before.alarm.setAtMs ?? scheduledAtMs, decision);
  const timed = projection.tellNextDue(typeof device === 'string' ? state : device, used, decision);
  const planned = sharing.planSharing(projection.planProjection(planRetry(timed, nowMs), decision), decision);
  const told = typeof device === 'string' ? planned : planNotices(device, planned, decision);
  const noted = noteAlerts(before, noteEvents(before, told, ended, decision), decision);
  return { state: planAlarm(noted, nowMs), effects, result };
}

function handle(present: DeviceState, event: DeviceEvent, decision: Decision) {
  // A due time that came before the event is first. An alarm applies presence before; a check of the socket is part of it.
  const isBefore = !['alarm_fired', 'direct_checked'].includes(event.kind);
  const state = isBefore ? runDue(present, decision) : present;
  if (isReport(event)) {
    const report = reports[event.kind] as (...args: [DeviceState, DeviceEvent, Decision]) => Device;
    return { state: report(state, event, decision), result: null };
  }
  return (requests[event.kind] as unknown as Requested<RequestedKind>)(state, event, decision);
}

/** Only an activation makes a device, or a record of a device whose session was lost; never again a deleted device. */
function decideAbsent(device: 'unused' | 'deleted', event: DeviceEvent, nowMs: number) {
  if (event.kind === 'provisioned' && device === 'unused') return activateFirst(event, nowMs);
  if (event.kind === 'record_restored' && device === 'unused') return { state: restore(event, nowMs), result: null };
  if (event.kind === 'record_imported' && device === 'unused') return { state: importDevice(event), result: null };
  if (isReport(event)) return { state: device, result: null };
  if (event.kind === 'messages_received') return { state: device, result: rejectAll(event.messages.length) };
  // Packets of a direct session never come here: without a device nothing reads them.
  return { state: device, result: refuse({ kind: 'not_found', what: 'device' }) };
}

function isReport(event: DeviceEvent): event is EventOf<ReportKind> {
  return Object.hasOwn(reports, event.kind);
}

type Requested<Kind extends RequestedKind> = (...args: Parameters<Handler<Kind>>) => {
  state: Device;
  result: Results[Kind];
};

const requests: { [Kind in RequestedKind]: Requested<Kind> } = {
  provisioned: activateAgain,
  login_attempted: sessions.logIn,
  direct_connected: sessions.connectDirectly,
  direct_packets_received: sessions.takeDirectPackets,

  messages_received: (state, { productKey, spoolId, messages }, decision) => {
    if (productKey !== state.identity.productKey) return { state, result: rejectAll(messages.length) };
    const outcome = takeMessages(state, spoolId, messages, decision);
    const others: Ingested['others'] = [];
    for (const [position, result] of outcome.results.entries()) {
      if (result.result !== 'accepted') others.push({ ...result, position });
    }
    const mayBeHeard = !state.identity.isDisabled && !state.credentials.isAwaitingLogin;
    const subscriptions = mayBeHeard ? outcome.state.subscriptions : [];
    const generations = liveGenerations(state.credentials, decision.nowMs);
    const readers = mayBeHeard ? sharing.readersOf(outcome.state) : [];
    return { state: outcome.state, result: { others, subscriptions, generations, readers } };
  },

  relay_message_received: (state, { productKey, generation, action, payload }, decision) => {
    const { identity, credentials } = state;
    if (productKey !== identity.productKey) return { state, result: refuse(noDevice(state)) };
    if (identity.isDisabled) return { state, result: refuse({ kind: 'device_disabled', deviceId: identity.deviceId }) };
    const generations = liveGenerations(credentials, decision.nowMs);
    if (!generations.includes(generation)) {
      const problem = 'revoked';
      return { state, result: refuse({ kind: 'credential_refused', credential: 'session', problem }) };
    }
    const outcome = takeRelayMessage(state, action, payload, decision);
    if (outcome === undefined) {
      const limit = 'deviceMessagesPerMinute';
      const counted = countDropped(state, 1, decision.nowMs);
      return { state: counted, result: refuse({ kind: 'rate_limited', limit, retryAfterSeconds: 1 }) };
    }
    if (outcome.result.result === 'accepted') pushMessage(state, action, payload, decision);
    return { state: outcome.state, result: accept(outcome.result) };
  },

  command_requested: allowed('control', acceptRequest),
  cancel_requested: allowed('control', cancelCommand),

  subscription_requested: (state, { actor, productKey, shard, filter }, { nowMs }) => {
    const refusal =
      sharing.refuseUnless(state, actor, 'readReports') ??
      (productKey === state.identity.productKey ? undefined : noDevice(state));
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    const ignoresCommands = !matchesFilter(filter, topicOf(state.identity, topicActions.propertySet));
    const subscriptions = addSubscription(state.subscriptions, shard, ignoresCommands, nowMs);
    return { state: { ...state, subscriptions }, result: accept(null) };
  },

  administered: claiming(administration.administer, ({ change }) => change.name !== undefined),
  credentials_replaced: allowed('replaceCredentials', administration.replaceCredentials),
  released: allowed('transfer', administration.release),
  claim_undone: allowed('undoClaim', administration.undoClaim),
  transfer_offered: claiming(allowed('transfer', administration.offerTransfer)),
  transfer_withdrawn: allowed('transfer', administration.withdrawTransfer),
  transfer_answered: administration.answerTransfer,
  pairing_window_set: allowed('pair', administration.setPairingWindow),
  reactivation_set: allowed('pair', administration.setReactivation),
  member_joined: claiming(sharing.addMember),
  member_changed: allowed('share', sharing.changeMember),

  member_removed: sharing.removeMember,
  invitation_changed: claiming(sharing.noteInvitation, ({ change }) => change === 'invited'),

  // A link sends a command: its maker needs the right to do so, too.
  guest_link_made: claiming(allowed('share', allowed('control', guests.makeGuestLink))),
  guest_link_revoked: allowed('share', guests.revokeGuestLink),
  guest_link_used: guests.applyGuestUse,

  schedule_put: allowed('manageSchedules', putSchedule),
  schedule_changed: allowed('manageSchedules', changeSchedule),
  schedule_run: allowed('manageSchedules', runNow),
  lease_ended: allowed('control', revokeLease),
  witness_set: allowed('manageWitness', setWitness),
  checked_in: checkIn,
  witness_read: takeReading,
  watcher_set: allowed('readReports', setWatcher),
  reading_asked: readForWatcher,
  update_offered: offerUpdate,
  update_postponed: allowed('postponeUpdate', postponeUpdate),
  image_asked: noteFetch,
  redelivery_requested: allowed('readReports', redeliver),

  deleted: (state, { actor }, decision) => {
    const refusal = actor === null ? undefined : sharing.refuseUnless(state, actor, 'delete');
    if (refusal !== undefined) return { state, result: refuse(refusal) };
    return { state: endDevice(state, decision), result: accept(null) };
  },
};

const reports: { [Kind in ReportKind]: (state: DeviceState, event: EventOf<Kind>, decision: Decision) => Device } = {
  record_restored: (state) => state,
  record_imported: (state) => state,
  connection_reported: sessions.noteConnection,
  direct_ended: (state, { end }, decision) => sessions.endDirectSession(state, end, decision),
  direct_checked: (state, { open }, decision) => sessions.checkDirectSession(state, open, decision),
  messages_dropped: (state, { count }, { nowMs }) => countDropped(state, count, nowMs),
  publish_refused: (state, refused, { nowMs }) => countRejection(state, refused, nowMs),
  giver_checked: (state, event, decision) => guests.endLinksOfKey(applyGiverCheck(state, event, decision), event),
  message_put_aside: (state, { spoolId, seq, action }, { nowMs }) => putAside(state, spoolId, seq, action, nowMs),

  publication_ended: (state, event, decision) =>
    guests.returnGuestUse(state, applyPublication(state, event, decision), event.commandId, decision.nowMs),

  subscription_ended: (state, { shard, registrationId }) => ({
    ...state,
    subscriptions: removeSubscription(state.subscriptions, shard, registrationId),
  }),

  members_written: sharing.noteMembersWritten,
  subscriptions_ended: sharing.noteSubscriptionsEnded,
  product_changed: (state, { facts }) => ({ ...state, identity: applyProductChange(state.identity, facts) }),
  announcement_ended: noteAnnouncementEnd,
  webhooks_changed: (state) => state,
  events_taken: noteTaken,
  inbox_told: noteInboxTold,
  witness_asked: noteAsked,
  watcher_ended: endWatcher,
  projection_ended: projection.noteProjectionEnd,

  record_checked: (state, { isThere }, decision) => {
    const next = projection.noteRecord(state, isThere, decision.nowMs);
    if (next !== 'deleted') return next;
    const ended = endDevice(state, decision);
    decision.effects.push({ kind: 'delete_at_broker', productKey: state.identity.productKey });
    return ended;
  },

  record_compared: (state, { projectionVersion, membersVersion }) =>
    sharing.compareMembers(projection.compareProjection(state, projectionVersion), membersVersion),

  alarm_fired: (state, { scheduledAtMs }, decision) => {
    const adopted = state.alarm.setAtMs === null ? adoptAlarm(state, scheduledAtMs, decision.nowMs) : state;
    const fired = endOutdated({ ...adopted, alarm: { ...adopted.alarm, setAtMs: null } }, decision);
    const applied = applyDuePresence(applyCoalesced(fired, decision), decision);
    const next = runDue(publishDue(applied, decision), decision);
    return projection.askWhereDue(projection.planRecordCheck(next, decision.nowMs), decision);
  },
};

function endDevice(state: DeviceState, decision: Decision): 'deleted' {
  sessions.endSocket(state, decision);
  endRelaySessions(state, 'deleted', decision);
  return 'deleted';
}

const unknownDevice = { result: 'rejected', reason: 'device_not_found' } as const;

function rejectAll(count: number): Ingested {
  const others = Array.from({ length: count }, (_, position) => ({ ...unknownDevice, position }));
  return { others, subscriptions: [], generations: [], readers: [] };
}

function allowed<Kind extends AskedKind>(action: DeviceAction, handleIt: Handler<Kind>): Handler<Kind> {
  return (state, event, decision) => {
    const { actor } = event as { actor: Actor };
    const refusal = sharing.refuseUnless(state, actor, action);
    return refusal === undefined ? handleIt(state, event, decision) : { state, result: refuse(refusal) };
  };
}

type ClaimingKind = 'administered' | 'transfer_offered' | 'member_joined' | 'invitation_changed' | 'guest_link_made';

/** Done to an unclaimed device, it claims the device for its product's owner. */
function claiming<Kind extends ClaimingKind>(
  handleIt: Handler<Kind>,
  isMeant: (event: EventOf<Kind>) => boolean = () => true,
): Handler<Kind> {
  return (state, event, decision) => {
    const outcome = handleIt(state, event, decision);
    if (!outcome.result.ok || !isMeant(event)) return outcome;
    const { address = null } = event as { address?: string | null };
    return { ...outcome, state: administration.claimForOwner(outcome.state, address, decision.nowMs) };
  };
}

function noDevice({ identity }: DeviceState): Refusal {
  return { kind: 'not_found', what: 'device', id: identity.deviceId };
}

export function ask<T>(
  device: Device,
  actor: Actor,
  action: DeviceAction,
  query: (state: DeviceState) => T,
): Outcome<T> {
  if (typeof device === 'string') return refuse({ kind: 'not_found', what: 'device' });
  const refusal = sharing.refuseUnless(device, actor, action);
  return refusal === undefined ? accept(query(device)) : refuse(refusal);
}
