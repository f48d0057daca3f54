// A device's core without workerd: the events of a test go through `decide`, what it would write is kept as text, and
// its effects are answered by a broker of two words. Storage, alarms and order of the real object are tested in workerd.
import { inPerson } from '../../../src/domain/access.ts';
import {
  adoptAlarm,
  afterWrite,
  readState,
  rowsToSave,
  savedState,
  type DeviceSettings,
  type DeviceState,
  type SavedRows,
} from '../../../src/domain/device/core/state.ts';
import type { Command } from '../../../src/domain/device/commands/command-life.ts';
import { viewCommand, type CommandRequest } from '../../../src/domain/device/commands/commands.ts';
import { ask, decide, type Device } from '../../../src/domain/device/core/decide.ts';
import type { Effect, DeviceEvent, EventKind, Results } from '../../../src/domain/device/core/events.ts';
import type { GuestEntry, JournalEntry, Transition } from '../../../src/domain/device/core/history.ts';
import { noWebhooks, type Webhooks } from '../../../src/domain/device/core/outgoing.ts';
import type { InboundMessage } from '../../../src/domain/device/messages/inbox.ts';
import { mentionedCommands } from '../../../src/domain/device/messages/messages.ts';
import type { ProjectionOutcome } from '../../../src/domain/device/presence/projection.ts';
import type { Timing } from '../../../src/domain/device/times/calendar.ts';
import { runningCommands, type Run } from '../../../src/domain/device/times/ledger.ts';
import type { ScheduleDraft } from '../../../src/domain/device/times/schedules.ts';
import type { SeriesDay } from '../../../src/domain/device/usage/series.ts';
import type { Day } from '../../../src/domain/device/usage/usage.ts';
import { viewEvents, viewStatus } from '../../../src/domain/device/core/views.ts';
import type { NoticeChange } from '../../../src/domain/notices.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { toIso } from '../../../src/domain/time.ts';
import type { OutgoingEvent } from '../../../src/domain/webhooks/webhooks.ts';
import { limitsOf } from '../limits-of.ts';
import { topicActions, type TopicAction } from '../../../src/protocol/mqtt.ts';

export const up = { action: 'toggle', position: 'up' } as const;
export const down = { action: 'toggle', position: 'down' } as const;

/** When a schedule is due, without what limits its dates; `once` at an instant. */
export const always = { days: null, from: null, until: null, except: [] };
export const once = (atMs: number): Timing => ({ ...always, at: toIso(atMs), zone: null });

type EventOf<Kind extends EventKind> = Extract<DeviceEvent, { kind: Kind }>;
type Published = { topic: string; payload: string };

const ownerId = 1;
/** The default limits. */
const limits = limitsOf('');

/** What an activation with nothing to show has beside its facts. */
export function proofOf(passwordDigest: string) {
  const nothing = {
    claimantId: undefined,
    lacksCode: false,
    isSecretRight: false,
    address: '192.0.2.7',
    wasActivated: false,
  };
  return { secretDigest: 'secret', passwordDigest, defaultName: 'A switch', ...nothing };
}

/** A device whose broker reports connections, online. */
export function onlineDevice(...options: ConstructorParameters<typeof CoreDevice>): CoreDevice {
  const device = new CoreDevice(...options);
  device.connect();
  return device;
}

export class CoreDevice {
  readonly productKey = 'switch';
  readonly deviceId: string;
  nowMs: number;
  /** Whether the broker takes what is published. */
  hasBroker = true;
  /** It takes commands and does not answer: the test ends the publications. */
  isBrokerSilent = false;
  /** It ends after each write, before its effects. */
  isDying = false;
  /** What D1 says of the authors of schedules; undefined: it does not answer. */
  isAuthorValid: boolean | undefined;
  /** How a write of the projection ends, at once; undefined: the test ends it. */
  projectionOutcome: ProjectionOutcome | undefined = 'written';
  /** What was published and not taken by the test, oldest first. */
  readonly published: Published[] = [];
  readonly effects: Effect[] = [];
  /** The ledger, oldest first, and all of it: storage keeps the last. */
  readonly runs: Run[] = [];
  /** What directories answered. */
  webhooks: Webhooks = noWebhooks;
  /** Whether inboxes of users answer, and what they were told, oldest first. */
  hasInbox = true;
  readonly told: ({ userId: number } & NoticeChange)[] = [];
  /** Days that have ended, oldest first, and all of them; and what was sampled on them. */
  readonly days: Day[] = [];
  readonly sampled: { kind: 'quarters' | 'hours'; entry: SeriesDay }[] = [];
  /** Events for webhooks, oldest first, and all of them. */
  readonly outgoing: OutgoingEvent[] = [];
  #device: Device = 'unused';
  #saved: DeviceState | undefined;
  readonly #settings: DeviceSettings;
  readonly #rows = new Map<string, string>();
  readonly #commands = new Map<string, Command>();
  readonly #transitions: Transition[] = [];
  readonly #journal: JournalEntry[] = [];
  readonly #guests: GuestEntry[] = [];
  #lastNumber = 0;
  #sessionStartedAtMs = 0;
  #lastSeq = 0;

  constructor(nowMs: number, settings: Partial<DeviceSettings> = {}, deviceId = 'dev_00000001') {
    this.deviceId = deviceId;
    this.nowMs = nowMs;
    this.#settings = { reportsConnections: true, keepAliveSeconds: 60, asksAtLogin: true, limits, ...settings };
    const ownership = { ownerId, productOwnerId: ownerId, claimedAtMs: null };
    const facts = { productKey: this.productKey, ...ownership, name: 'A switch', controlMode: 'toggle' };
    this.run({
      kind: 'provisioned',
      deviceId: this.deviceId,
      settings: this.#settings,
      facts: { ...facts, offlineGraceSeconds: 0, reactivation: null, productChangedAtMs: 0, isDisabled: false },
      ...proofOf('password'),
    });
  }

  run<Kind extends EventKind>(event: EventOf<Kind>): Results[Kind] {
    const before = this.#load(event);
    const newCommand = () => this.#newCommand();
    const { state, effects, result } = decide<Kind>(before, event, this.nowMs, newCommand, (readers) => {
      const list = this.webhooks.list.filter(({ userId }) => readers.includes(userId));
      return { ...this.webhooks, list };
    });
    if (state !== before) this.#commit(before, state);
    this.effects.push(...effects);
    if (this.isDying) this.sleep();
    else for (const effect of effects) this.#answer(effect);
    return result;
  }

  /** Its broker reports a session that begins now. */
  connect(): void {
    this.#sessionStartedAtMs = this.nowMs;
    const report = { kind: 'connected', sessionStartedAtMs: this.nowMs } as const;
    this.run({ kind: 'connection_reported', report });
  }

  /** Its broker reports that the session ends now. */
  disconnect(): void {
    const end = { endedAtMs: this.nowMs, reason: 'tcp_closed' };
    const report = { kind: 'disconnected', sessionStartedAtMs: this.#sessionStartedAtMs, ...end } as const;
    this.run({ kind: 'connection_reported', report });
  }

  receive(action: TopicAction, payload: unknown, fields: Partial<InboundMessage> = {}) {
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    const plain = { isDup: false, isSoleReader: false, isRetained: false, receivedAtMs: this.nowMs };
    const message = { seq: ++this.#lastSeq, action, payload: text, ...plain, ...fields };
    const { productKey } = this;
    const { others } = this.run({ kind: 'messages_received', productKey, spoolId: 'spool', messages: [message] });
    return others[0] ?? { result: 'accepted' as const };
  }

  request(request: Pick<CommandRequest, 'params' | 'ttlSeconds' | 'lease' | 'via'>, actor = inPerson(ownerId)) {
    const whole = { ...request, waitSeconds: undefined, idempotencyKey: undefined };
    const outcome = this.run({ kind: 'command_requested', actor, request: whole });
    return { commandId: outcome.ok ? outcome.value.commandId : '', outcome };
  }

  /** By its owner, without jitter and with a minute of grace, unless told otherwise. */
  schedule(scheduleId: string, timing: Timing, more: Partial<ScheduleDraft> = {}, actor = inPerson(ownerId)) {
    const plain = { name: 'S', command: up, jitterSeconds: 0, graceSeconds: 60, enabled: true };
    const draft = { ...plain, ...timing, ...more };
    const isNew = !this.state.schedules.some((schedule) => schedule.scheduleId === scheduleId);
    return this.run({ kind: 'schedule_put', actor, scheduleId, draft, isNew });
  }

  changeSchedule(scheduleId: string, change: EventOf<'schedule_changed'>['change']) {
    return this.run({ kind: 'schedule_changed', actor: inPerson(ownerId), scheduleId, change });
  }

  setDisabled(isDisabled: boolean): void {
    this.run({ kind: 'administered', actor: inPerson(ownerId), change: { isDisabled } });
  }

  /** Newest first. */
  commands() {
    const listed = [...this.#commands.values()].sort((one, other) => other.number - one.number);
    return listed.map((command) => ({
      ...viewCommand(this.state, command, this.nowMs, inPerson(ownerId)),
      ...command,
      scheduleId: command.scheduleId,
      witness: command.witness,
    }));
  }

  /** Without the activation that the constructor made. */
  events() {
    const page = { page: 1, size: 100 };
    const outcome = ask(this.#device, inPerson(ownerId), 'readReports', (state) => {
      const counts = state.counts.filter(({ reason }) => reason !== 'first');
      const stored = { transitions: this.#transitions, journal: this.#journal, guests: this.#guests };
      return viewEvents({ ...state, counts }, stored, page, inPerson(ownerId));
    });
    return unwrap(outcome).list;
  }

  status() {
    return viewStatus(this.state, this.nowMs);
  }

  get state(): DeviceState {
    if (typeof this.#device === 'string') throw new Error(`the device is ${this.#device}`);
    return this.#device;
  }

  /** Runs the alarm if it is set, early or late. */
  fireAlarm(): void {
    const { setAtMs } = this.state.alarm;
    if (setAtMs !== null) this.run({ kind: 'alarm_fired', scheduledAtMs: setAtMs });
  }

  /** Moves the clock and fires each alarm at its time. */
  waitUntil(untilMs: number): void {
    for (let fired = 0; (this.state.alarm.setAtMs ?? Infinity) <= untilMs; fired++) {
      if (fired > 10_000) throw new Error('alarms without an end');
      this.nowMs = Math.max(this.nowMs, this.state.alarm.setAtMs ?? 0);
      this.fireAlarm();
    }
    this.nowMs = untilMs;
  }

  wait(ms: number): void {
    this.waitUntil(this.nowMs + ms);
  }

  /** Commands that reached the broker, oldest first. */
  get sent() {
    const sets = this.published.filter(({ topic }) => topic.endsWith(topicActions.propertySet));
    return sets.map(({ payload }) => JSON.parse(payload) as { id: string; params: Record<string, unknown> });
  }

  /** The device replies to the last command. */
  reply(code = 200): void {
    const { id } = this.sent.at(-1) ?? { id: '' };
    this.receive(topicActions.propertyPost, { method: 'thing.service.property.set_reply', id, code });
  }

  report(position: string): void {
    this.receive(topicActions.propertyPost, { params: { position } });
  }

  writes() {
    return this.effects.filter((effect) => effect.kind === 'write_projection');
  }

  endProjection(version: number, outcome: ProjectionOutcome): void {
    this.run({ kind: 'projection_ended', version, outcome });
  }

  /** What storage holds, by the name of its row. */
  savedRows(): Record<string, string> {
    return Object.fromEntries(this.#rows);
  }

  /** Forgets what is in memory alone. */
  sleep(): void {
    const rows = Object.fromEntries([...this.#rows].map(([name, json]) => [name, JSON.parse(json) as unknown]));
    const read = readState(this.#settings, rows as SavedRows);
    const last = Math.max(read.outgoing.last, this.outgoing.at(-1)?.number ?? 0);
    const loaded = { ...read, outgoing: { ...read.outgoing, last } };
    this.#saved = loaded;
    this.#device = adoptAlarm(loaded, this.state.alarm.setAtMs, this.nowMs);
  }

  #newCommand() {
    const number = ++this.#lastNumber;
    return { commandId: `command-${number}`, number };
  }

  #load(event: DeviceEvent): Device {
    if (typeof this.#device === 'string') return this.#device;
    const named =
      event.kind === 'publication_ended' || event.kind === 'cancel_requested'
        ? [event.commandId]
        : event.kind === 'messages_received'
          ? event.messages.flatMap(({ action, payload }) => mentionedCommands(action, payload))
          : [];
    const wanted = [...named, ...runningCommands(this.#device)];
    const isLoaded = (command: Command) => command.cancelledBecause === null || wanted.includes(command.commandId);
    const loaded = [...this.#commands.values()].filter(isLoaded).sort((one, other) => other.number - one.number);
    return { ...this.#device, commands: { ...this.#device.commands, loaded } };
  }

  #commit(before: Device, state: Device): void {
    this.#device = state;
    if (typeof state === 'string') return;
    const known = typeof before === 'string' ? [] : before.commands.loaded;
    if (typeof before !== 'string' && before.ownership.period !== state.ownership.period) {
      this.#saved = undefined;
      this.#rows.clear();
      for (const memory of [this.#transitions, this.#journal, this.#guests]) memory.length = 0;
      this.#commands.clear();
    }
    const rows = rowsToSave(this.#saved, state, this.nowMs);
    for (const [name, row] of Object.entries(rows)) this.#rows.set(name, JSON.stringify(row));
    for (const command of state.commands.loaded) {
      if (!known.includes(command)) this.#commands.set(command.commandId, command);
    }
    for (const { kind, entry } of state.newHistory) if (kind === 'transition') this.#transitions.unshift(entry);
    for (const { kind, entry } of state.newHistory) {
      if (kind === 'journal') this.#journal.unshift(entry);
      if (kind === 'guest') this.#guests.unshift(entry);
      if (kind === 'run') this.runs.push(entry);
      if (kind === 'event') this.outgoing.push(entry);
      if (kind === 'day') this.days.push(entry);
      if (kind === 'quarters' || kind === 'hours') this.sampled.push({ kind, entry });
    }
    this.#saved = savedState(this.#saved, state, rows);
    this.#device = afterWrite(state, this.nowMs).state;
  }

  #answer(effect: Effect): void {
    switch (effect.kind) {
      case 'publish_command': {
        if (this.hasBroker) this.published.push(effect);
        const { commandId } = effect;
        if (this.isBrokerSilent) break;
        const taken = { ok: true, id: commandId, publishedAtMs: this.nowMs, hasSubscribers: null } as const;
        const outcome = this.hasBroker ? taken : ({ ok: false, reason: 'refused' } as const);
        this.run({ kind: 'publication_ended', commandId, outcome });
        break;
      }
      case 'check_giver':
        if (this.isAuthorValid === undefined) break;
        this.run({ kind: 'giver_checked', userId: effect.userId, keyId: effect.keyId, isValid: this.isAuthorValid });
        break;
      case 'write_members':
        this.run({ kind: 'members_written', version: effect.version, isWritten: true });
        break;
      case 'publish_announcement':
        if (this.hasBroker) this.published.push(effect);
        this.run({ kind: 'announcement_ended', time: effect.time, isPublished: this.hasBroker });
        break;
      case 'tell_inbox':
        this.told.push(...effect.changes.map((change) => ({ userId: effect.userId, ...change })));
        if (this.hasInbox) this.run({ ...effect, kind: 'inbox_told' });
        break;
      case 'write_projection':
        if (this.projectionOutcome === undefined || (effect.mayBeLost && this.projectionOutcome === 'written')) break;
        this.endProjection(effect.projection.version, this.projectionOutcome);
        break;
      default:
    }
  }
}
