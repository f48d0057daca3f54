// Slice: events for webhooks: which changes of a device are events, and how far each webhook has them. An event is one row of a
// ring for all webhooks, and no row while nobody wants it. Sending is an effect; a cursor that is lost only repeats.
import { knownProperties } from '../../../protocol/mqtt.ts';
import type { CommandReason, CommandState, EventType } from '../../../protocol/vocabulary.ts';
import { usersWith } from '../../access.ts';
import { accept, refuse } from '../../refusal.ts';
import type { NoticeRules } from '../../notices.ts';
import { minuteMs, secondMs, toIso } from '../../time.ts';
import {
  eventsPerTake,
  wantsDevice,
  type OutgoingEvent,
  type TakeAnswer,
  type WebhookFilter,
} from '../../webhooks/webhooks.ts';
import { describeCommand, settleAtMs, type Command } from '../commands/command-life.ts';
import { measurement } from '../messages/properties.ts';
import { eventsBeforeArrival } from '../ownership/arrival.ts';
import { ownershipOf, readersOf } from '../ownership/sharing.ts';
import { viewRun } from '../times/ledger.ts';
import type { Decision, Handler, Reporter } from './events.ts';
import type { HistoryEntry, JournalEntry } from './history.ts';
import type { DeviceState, Slice } from './state.ts';

/**
 * `isComplete`: the directory of each reader has answered. `isOld`: it has another answer by now. `rules`: the last answer, of readers
 * whose directory has ever answered.
 */
export type Webhooks = {
  isComplete: boolean;
  rules?: ReadonlyMap<number, NoticeRules>;
  list: readonly (WebhookFilter & { userId: number; isOld: boolean })[];
  /** A reader has a home: it is told of what no message shows. */
  hasHome?: boolean;
};

export const noWebhooks: Webhooks = { isComplete: true, list: [] };

/** `failures`: how often in a row it did not take the next event. */
export type EventReceiver = { webhookId: string; userId: number; failures: number };

type Consumer = EventReceiver & {
  /** Number of the last event that the endpoint has, or does not want. */
  cursor: number;
  /** The endpoint takes nothing before. */
  laterAtMs: number | null;
  isDisabled: boolean;
  /** Memory only: the endpoint has been called and has not answered. */
  isUnderWay: boolean;
};

export type OutgoingSlice = {
  /** Number of the last event. Storage reads it from the ring. */
  last: number;
  /** Number before the first event that was noted while an answer of a directory was missing. */
  unansweredFrom: number | null;
  /** Memory only: directories are asked again after this time. */
  askAtMs: number;
  /** Memory only: a webhook or a home wants to know when a command ends. */
  tellsEnds: boolean;
  consumers: readonly Consumer[];
};

/** Without an answer of a directory. */
const askAgainAfterMs = 10 * secondMs;
/** The endpoint took nothing and did not say when it will. */
const takeAgainAfterMs = 10 * secondMs;
/** What was on its way when the object ended is sent again by then. Sooner would cost an alarm an event. */
const lostAfterMs = 10 * minuteMs;

export const outgoingSlice: Slice<OutgoingSlice> = {
  initial: { last: 0, unansweredFrom: null, askAtMs: 0, tellsEnds: false, consumers: [] },
  row: 'own',
  read: (saved) => withoutMemory(saved),
  isWorthSaving: ({ outgoing: saved }, { outgoing }) => {
    if (saved === outgoing) return false;
    if (saved.unansweredFrom !== outgoing.unansweredFrom || (saved.last === 0 && outgoing.last > 0)) return true;
    // The ring has only the numbers since the device arrived from another deployment.
    if (saved.last + eventsBeforeArrival <= outgoing.last) return true;
    if (idsOf(saved) !== idsOf(outgoing)) return true;
    // Once for all consumers of an event: when the last of them has answered.
    const isResting = outgoing.consumers.every(({ isUnderWay }) => !isUnderWay);
    // While events come faster than they are taken, none rests.
    const savedCursor = (index: number) => saved.consumers[index]?.cursor ?? 0;
    const isFar = outgoing.consumers.some(({ cursor }, index) => cursor - savedCursor(index) >= eventsPerTake);
    return (isResting || isFar) && progressOf(saved) !== progressOf(outgoing);
  },
  dueAtMs: ({ outgoing: { consumers, last, unansweredFrom, tellsEnds }, commands }, nowMs) => {
    const sends = consumers.flatMap(({ cursor, laterAtMs, isDisabled }) =>
      cursor < last && !isDisabled ? (laterAtMs ?? nowMs + lostAfterMs) : [],
    );
    // Usage alone notes an end when something else happens, unless the device is away.
    const isAwaited = ({ isEndDue, isAwaitingDevice }: Command) => isEndDue === true && (tellsEnds || isAwaitingDevice);
    const ends = commands.loaded.filter(isAwaited).map(settleAtMs);
    return Math.min(unansweredFrom === null ? Infinity : nowMs + lostAfterMs, ...sends, ...ends);
  },
  // Former readers have no right to what is not sent yet. A number never returns.
  onNewOwner: ({ outgoing: { last } }) => ({ ...outgoingSlice.initial, last }),
  onMove: ({ outgoing }) => withoutMemory(outgoing),
};

function withoutMemory(outgoing: OutgoingSlice): OutgoingSlice {
  const consumers = outgoing.consumers.map((consumer) => ({ ...consumer, isUnderWay: false }));
  return { ...outgoing, askAtMs: 0, tellsEnds: false, consumers };
}

const idsOf = ({ consumers }: OutgoingSlice) => consumers.map(({ webhookId }) => webhookId).join();
const progressOf = ({ consumers }: OutgoingSlice) =>
  consumers.map(({ cursor, laterAtMs }) => `${cursor} ${laterAtMs}`).join();

/** At the end of each decision. It notes what became of the device, and sends what webhooks have not. */
export function noteEvents(
  before: DeviceState,
  state: DeviceState,
  ended: readonly CommandEnd[],
  decision: Decision,
): DeviceState {
  const { nowMs } = decision;
  const webhooks = decision.webhooksOf(readersOf(state));
  const mine = { ...webhooks, list: webhooks.list.filter((webhook) => wantsDevice(webhook, state.identity)) };
  const { hasHome = false } = webhooks;
  if (hasHome) noteForHomes(before, state, ended.length > 0, decision);
  if (mine.isComplete && mine.list.length === 0) return withoutConsumers(state, hasHome);
  const owners = usersWith(ownershipOf(state), 'readSharing');
  const typesOf = ({ types, userId }: Webhooks['list'][number]) =>
    types.filter((type) => owners.includes(userId) || !privateTypes.includes(type));
  const present = mine.list.filter(({ isOld }) => !isOld);
  const wanted = new Map(present.map((webhook) => [webhook.webhookId, typesOf(webhook)]));
  const isWanted = (type: EventType) => !mine.isComplete || [...wanted.values()].some((types) => types.includes(type));
  const ends = ended.map((end) => endEvent(end, nowMs));
  const drafts = [...changesOf(before, state, nowMs), ...ends].filter(({ type }) => isWanted(type));
  const { last } = state.outgoing;
  const events = drafts.map((draft, index): OutgoingEvent => ({ number: last + index + 1, ...draft }));
  const reconciled = reconcile(state.outgoing, mine, events.length > 0);
  const passed = reconciled.consumers.map((consumer) => passUnwanted(consumer, events, wanted.get(consumer.webhookId)));
  const tellsEnds = hasHome || isWanted('command.settled');
  const outgoing = { ...reconciled, tellsEnds, last: last + events.length, consumers: passed };
  const entries = events.map((entry): HistoryEntry => ({ kind: 'event', number: entry.number, entry }));
  const noted = { ...state, outgoing, newHistory: [...state.newHistory, ...entries] };
  return send(noted, wanted, mine.isComplete, decision);
}

/** A home reads what became of a command, of the witness, and of the device. */
function noteForHomes(before: DeviceState, state: DeviceState, hasEnded: boolean, { effects }: Decision): void {
  const [former, present] = [before, state].map(({ witness }) => [witness.actual?.value, witness.settings]);
  const isSeenOtherwise = former?.some((part, index) => part !== present?.[index]) === true;
  if (hasEnded || isSeenOtherwise) effects.push({ kind: 'tell_homes' });
}

/** The answer to a call before a redelivery counts no more. */
export const noteTaken: Reporter<'events_taken'> = (state, { webhookId, after, answer }, { nowMs }) => {
  const consumer = state.outgoing.consumers.find((entry) => entry.webhookId === webhookId && entry.cursor === after);
  if (consumer === undefined) return state;
  return withConsumer(state, consumer, afterTake(consumer, answer, state.outgoing.last, nowMs));
};

export const redeliver: Handler<'redelivery_requested'> = (state, { actor, webhookId, from }) => {
  const { consumers } = state.outgoing;
  const consumer = consumers.find((entry) => entry.webhookId === webhookId && entry.userId === actor.userId);
  if (consumer === undefined) return { state, result: refuse({ kind: 'not_found', what: 'webhook', id: webhookId }) };
  const cursor = Math.min(consumer.cursor, from - 1);
  const rests = { laterAtMs: null, failures: 0, isUnderWay: false };
  return { state: withConsumer(state, consumer, { ...rests, cursor }), result: accept(null) };
};

function withConsumer(state: DeviceState, consumer: Consumer, change: Partial<Consumer>): DeviceState {
  const { outgoing } = state;
  const consumers = outgoing.consumers.map((entry) => (entry === consumer ? { ...entry, ...change } : entry));
  return { ...state, outgoing: { ...outgoing, consumers } };
}

function afterTake(former: Consumer, answer: TakeAnswer, last: number, nowMs: number): Partial<Consumer> {
  // The directory is asked again, and no longer names it.
  if (answer === 'gone') return { cursor: last, laterAtMs: null, isUnderWay: false };
  const hasMoved = (answer.upTo ?? 0) > former.cursor;
  const { upTo = former.cursor, laterAtMs = hasMoved ? null : nowMs + takeAgainAfterMs } = answer;
  return {
    cursor: hasMoved ? Math.min(upTo, last) : former.cursor,
    laterAtMs: laterAtMs === null ? null : Math.max(laterAtMs, nowMs + secondMs),
    failures: answer.failures ?? (hasMoved ? 0 : former.failures),
    isUnderWay: false,
  };
}

function withoutConsumers(state: DeviceState, tellsEnds: boolean): DeviceState {
  const { outgoing } = state;
  const isAlike = outgoing.consumers.length === 0 && outgoing.unansweredFrom === null;
  if (isAlike && outgoing.tellsEnds === tellsEnds) return state;
  return { ...state, outgoing: { ...outgoing, consumers: [], unansweredFrom: null, askAtMs: 0, tellsEnds } };
}

/** A new webhook begins with the events that were noted while it was not known. */
function reconcile(outgoing: OutgoingSlice, { isComplete, list }: Webhooks, hasEvents: boolean): OutgoingSlice {
  const { last, unansweredFrom, consumers } = outgoing;
  const begin = { cursor: unansweredFrom ?? last, laterAtMs: null, failures: 0, isUnderWay: false };
  return {
    ...outgoing,
    askAtMs: isComplete ? 0 : outgoing.askAtMs,
    unansweredFrom: isComplete ? null : (unansweredFrom ?? (hasEvents ? last : null)),
    consumers: list.map(({ webhookId, userId, isOld, disabledBecause }) => {
      const isDisabled = disabledBecause !== null;
      const former = consumers.find((consumer) => consumer.webhookId === webhookId);
      if (former === undefined) return { webhookId, userId, ...begin, isDisabled };
      // Its receiver may be another, or work again.
      return { ...former, isDisabled, ...(isOld && { laterAtMs: null, failures: 0 }) };
    }),
  };
}

/** Unwanted events right behind the cursor need no call. */
function passUnwanted(consumer: Consumer, events: readonly OutgoingEvent[], types?: readonly EventType[]): Consumer {
  return events.reduce((passed, { number, type }) => {
    const isNext = passed.cursor === number - 1 && types?.includes(type) === false;
    return isNext ? { ...passed, cursor: number } : passed;
  }, consumer);
}

function send(
  state: DeviceState,
  wanted: ReadonlyMap<string, readonly EventType[]>,
  isComplete: boolean,
  { nowMs, effects }: Decision,
): DeviceState {
  const { outgoing } = state;
  const { last, unansweredFrom } = outgoing;
  const consumers = outgoing.consumers.map((consumer) => {
    const { webhookId, userId, cursor, laterAtMs, failures, isUnderWay, isDisabled } = consumer;
    const types = wanted.get(webhookId);
    if (types === undefined || cursor >= last || isUnderWay || isDisabled || (laterAtMs ?? 0) > nowMs) return consumer;
    effects.push({ kind: 'deliver_events', webhookId, userId, types, after: cursor, last, failures });
    return { ...consumer, isUnderWay: true, laterAtMs: null };
  });
  // The rules of notices come with the same answer.
  const isAway = state.alerts.awaySinceMs !== null;
  const isWaiting = isAway || unansweredFrom !== null || consumers.some(({ cursor }) => cursor < last);
  const asks = !isComplete && isWaiting && outgoing.askAtMs <= nowMs;
  if (asks) effects.push({ kind: 'learn_webhooks', readers: readersOf(state) });
  const askAtMs = asks ? nowMs + askAgainAfterMs : outgoing.askAtMs;
  return { ...state, outgoing: { ...outgoing, consumers, askAtMs } };
}

type Draft = Omit<OutgoingEvent, 'number'>;

/** They say who shares and uses the device: only its owner may see that. */
export const privateTypes: readonly EventType[] = ['device.claimed', 'device.released', 'member.changed'];

function changesOf(before: DeviceState, state: DeviceState, nowMs: number): Draft[] {
  const activations = state.counts.filter((count) => count.status === 'activated' && !before.counts.includes(count));
  return [
    ...activations.map(({ reason }): Draft => ({ type: 'device.activated', time: nowMs, data: { reason } })),
    ...state.newHistory.flatMap((entry) => historyEvent(entry, nowMs) ?? []),
    ...presenceEvents(before, state, nowMs),
    ...reportEvents(before, state, nowMs),
  ];
}

const typeOfChange: { [Change in JournalEntry['reason']]?: EventType } = {
  claimed: 'device.claimed',
  transferred: 'device.claimed',
  released: 'device.released',
  claim_undone: 'device.released',
  joined: 'member.changed',
  role_changed: 'member.changed',
  removed: 'member.changed',
  left: 'member.changed',
};

function historyEvent(noted: HistoryEntry, nowMs: number): Draft | undefined {
  if (noted.kind === 'run') return { type: 'run.settled', time: nowMs, data: viewRun(noted.entry) };
  if (noted.kind !== 'journal') return undefined;
  const { entry } = noted;
  const { reason, time } = entry;
  const type = typeOfChange[reason];
  return type && { type, time, data: 'email' in entry ? { reason, email: entry.email, role: entry.role } : { reason } };
}

/** What is announced: a device that is back within its product's grace was not away. */
function presenceEvents(before: DeviceState, state: DeviceState, nowMs: number): Draft[] {
  const [former, present] = [before, state].map(({ presence }) => presence.connection.lastAnnounced ?? 'offline');
  if (former === present) return [];
  const { lastOnlineAtMs, onlineSinceMs, offlineAtMs } = state.presence.connection;
  const since = toIso(present === 'online' ? onlineSinceMs : offlineAtMs);
  const data = { since, lastOnlineAt: toIso(lastOnlineAtMs) };
  return [{ type: `device.${present ?? 'offline'}`, time: nowMs, data }];
}

/** Of several reports in one decision the last. */
function reportEvents(before: DeviceState, state: DeviceState, nowMs: number): Draft[] {
  if (before.properties.values === state.properties.values) return [];
  const changes = state.properties.values.flatMap(([name, value]) => {
    const isTold = name !== measurement && Object.hasOwn(knownProperties, name);
    const former = before.properties.values.find(([formerName]) => formerName === name)?.[1];
    return isTold && former !== value ? [[name, value] as const] : [];
  });
  if (changes.length === 0) return [];
  return [{ type: 'device.reported', time: nowMs, data: { changes: Object.fromEntries(changes) } }];
}

const endStates: readonly CommandState[] = ['confirmed', 'undelivered', 'expired', 'failed', 'cancelled'];

export type CommandEnd = { command: Command; reached: CommandState; reason: CommandReason | null };

/** A command is marked when it begins, so that storage loads it until it has ended: its end is found once. */
export function endCommands(before: DeviceState, state: DeviceState, nowMs: number) {
  const formerIds = new Set(before.commands.loaded.map(({ commandId }) => commandId));
  const ended: CommandEnd[] = [];
  const loaded = state.commands.loaded.map((command) => {
    const isEndDue = command.isEndDue ?? !formerIds.has(command.commandId);
    if (!isEndDue) return command;
    const { state: reached, reason } = describeCommand(command, state.presence.connection.isOnline, nowMs);
    const isOver = reached === 'acknowledged' && nowMs >= settleAtMs(command);
    if (!isOver && !endStates.includes(reached)) return command.isEndDue === true ? command : { ...command, isEndDue };
    ended.push({ command, reached, reason });
    return { ...command, isEndDue: false };
  });
  const isChanged = loaded.some((command, index) => command !== state.commands.loaded[index]);
  return { state: isChanged ? { ...state, commands: { ...state.commands, loaded } } : state, ended };
}

function endEvent({ command, reached: state, reason }: CommandEnd, nowMs: number): Draft {
  const { commandId, params, scheduleId = null } = command;
  return { type: 'command.settled', time: nowMs, data: { commandId, params, state, reason, scheduleId } };
}
