// The state of one device between memory and storage: an event is decided by the core in domain/device, what changed is
// written in one transaction together with the alarm, and only then the effects run. Nothing else writes; never before the device
// was provisioned. Knows no caller: what may be asked of a device is device-session.ts.
import { readConfig } from '../../config.ts';
import { createId, isEqualDigest } from '../../crypto/secrets.ts';
import type { Actor, DeviceAction } from '../../domain/access.ts';
import { userKey } from '../../domain/device/commands/commands.ts';
import { guestKey } from '../../domain/device/commands/guest-links.ts';
import { ask, decide, type Device } from '../../domain/device/core/decide.ts';
import type { Effect, DeviceEvent, EventKind, EventOf, Ingested, Results } from '../../domain/device/core/events.ts';
import {
  adoptAlarm,
  afterWrite,
  rowNamed,
  rowsToSave,
  savedState,
  type DeviceState,
} from '../../domain/device/core/state.ts';
import { mentionedCommands } from '../../domain/device/messages/messages.ts';
import type { Webhooks } from '../../domain/device/core/outgoing.ts';
import { readersOf } from '../../domain/device/ownership/sharing.ts';
import type { OpenSession } from '../../domain/device/presence/sessions.ts';
import { runningCommands } from '../../domain/device/times/ledger.ts';
import type { Outcome } from '../../domain/refusal.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import { minuteMs } from '../../domain/time.ts';
import { describeError, log } from '../../log.ts';
import { inBackground } from '../calls/background.ts';
import { DeviceStorage } from './storage.ts';
import { createTroubleLog } from './trouble.ts';

/** An activation that read the record before the device was deleted has long ended by then. */
const keepTombstoneMs = 60 * minuteMs;

/**
 * `effects` runs what a decision wants done; `sockets` have received packets that the state does not know yet; `fleets` has what
 * directories answered.
 */
type Surroundings = {
  effects: { run: (effects: readonly Effect[]) => Promise<void> };
  sockets: { openSession: () => OpenSession | null };
  fleets: { webhooksOf: (readers: readonly number[]) => Webhooks };
};

export class StoredDevice {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly deviceId: string;
  readonly storage: DeviceStorage;
  readonly #logTrouble: ReturnType<typeof createTroubleLog>;
  readonly #surroundings: () => Surroundings;
  #device: Device;
  #saved: DeviceState | undefined;
  #hasOpenCommands = false;
  #isDirectChecked = false;

  /** @param surroundings are made with this device */
  constructor(ctx: DurableObjectState, env: Env, surroundings: () => Surroundings) {
    this.ctx = ctx;
    this.env = env;
    this.#surroundings = surroundings;
    this.deviceId = ctx.id.name ?? '';
    this.storage = new DeviceStorage(ctx.storage.sql);
    this.#logTrouble = createTroubleLog(this.deviceId, readConfig(env).logsRejectedText);
    this.#device = this.storage.load(this.settings());
    if (typeof this.#device === 'string') return;
    const loaded = this.#device;
    this.#saved = loaded;
    // Before the first event: storage alone may not know the device's last message.
    const adopting = ctx.blockConcurrencyWhile(async () => {
      this.#device = adoptAlarm(loaded, await ctx.storage.getAlarm(), Date.now());
    });
    inBackground(ctx, 'read alarm', adopting);
  }

  /** For the log. */
  get about() {
    return { deviceId: this.deviceId };
  }

  get present(): Device {
    return this.#device;
  }

  identity(): DeviceIdentity | undefined {
    return typeof this.#device === 'string' ? undefined : this.#device.identity;
  }

  readers(): readonly number[] {
    return typeof this.#device === 'string' ? [] : readersOf(this.#device);
  }

  /** Before an answer about presence: the socket may be gone. */
  checkDirect(): void {
    this.#isDirectChecked = true;
    if (typeof this.#device === 'string' || this.#device.direct.session === null) return;
    this.decide({ kind: 'direct_checked', open: this.#surroundings().sockets.openSession() });
  }

  ask<T>(actor: Actor, action: DeviceAction, query: (state: DeviceState) => T): Outcome<T> {
    this.checkDirect();
    return ask(this.#device, actor, action, query);
  }

  decide<Kind extends EventKind>(event: EventOf<Kind>, onWritten?: (result: Results[Kind]) => void): Results[Kind] {
    return this.#apply<Kind>(event, onWritten).result;
  }

  async decideAndWait<Kind extends EventKind>(event: EventOf<Kind>): Promise<Results[Kind]> {
    const { result, effectsEnded } = this.#apply<Kind>(event);
    await effectsEnded;
    return result;
  }

  /** As one decision; or message by message if storage refuses the whole, so that only the message at fault is put aside. */
  takeBatch({ messages, ...from }: Omit<EventOf<'messages_received'>, 'kind'>): Ingested {
    const { spoolId } = from;
    try {
      return this.decide({ kind: 'messages_received', ...from, messages });
    } catch (error) {
      log('error', 'batch not saved, its messages are taken one by one', { ...this.about, ...describeError(error) });
    }
    const others: Ingested['others'] = [];
    let last: Ingested | undefined;
    for (const [position, message] of messages.entries()) {
      try {
        const ingested = this.decide({ kind: 'messages_received', ...from, messages: [message] });
        others.push(...ingested.others.map((other) => ({ ...other, position })));
        last = ingested;
      } catch (error) {
        const { seq, action } = message;
        log('error', 'message put aside', { ...this.about, spoolId, seq, ...describeError(error) });
        this.decide({ kind: 'message_put_aside', spoolId, seq, action });
        others.push({ result: 'rejected', reason: 'handling_failed', position });
      }
    }
    return { subscriptions: [], generations: [], readers: [], ...last, others };
  }

  #apply<Kind extends EventKind>(event: EventOf<Kind>, onWritten?: (result: Results[Kind]) => void) {
    // At each wake, before anything else.
    if (!this.#isDirectChecked) this.checkDirect();
    const nowMs = Date.now();
    const before = this.#load(event, nowMs);
    const { state, effects, result } = decide<Kind>(
      before,
      event,
      nowMs,
      () => ({ commandId: createId('', 16), number: this.storage.nextCommandNumber() }),
      (readers) => this.#surroundings().fleets.webhooksOf(readers),
    );
    if (state !== before) this.#commit(before, state, nowMs);
    onWritten?.(result);
    return { result, effectsEnded: this.#surroundings().effects.run(effects) };
  }

  #load(event: DeviceEvent, nowMs: number): Device {
    if (typeof this.#device === 'string') return this.#device;
    if (!this.#hasOpenCommands) {
      const commands = { ...this.#device.commands, loaded: this.storage.listOpenCommands() };
      this.#device = { ...this.#device, commands };
      this.#hasOpenCommands = true;
    }
    const { commands } = this.#device;
    const names = new Set([...commandsNamedBy(event), ...runningCommands(this.#device)]);
    const named = [...names].filter((id) => commands.loaded.every(({ commandId }) => commandId !== id));
    const fromStorage = named.flatMap((id) => this.storage.findCommand(id) ?? []);
    const key = idempotencyKeyOf(event);
    const record = key === undefined ? undefined : this.storage.findIdempotencyRecord(key, nowMs);
    if (fromStorage.length === 0 && record === undefined) return this.#device;
    const loaded = [...commands.loaded, ...fromStorage].sort((a, b) => b.number - a.number);
    return { ...this.#device, commands: { ...commands, loaded, records: record === undefined ? [] : [record] } };
  }

  /** Writes what changed and sets the alarm: together or not at all. Memory follows storage. */
  #commit(before: Device, state: Device, nowMs: number): void {
    if (typeof state === 'string') {
      this.ctx.storage.transactionSync(() => this.storage.replaceByTombstone());
      this.#setAlarm(nowMs + keepTombstoneMs);
      this.#device = state;
      this.#saved = undefined;
      return;
    }
    const former = typeof before === 'string' ? undefined : before;
    const isNewPeriod = former !== undefined && former.ownership.period !== state.ownership.period;
    if (isNewPeriod) this.#saved = undefined;
    if (former !== undefined) this.#logTrouble(former, state, nowMs);
    const rows = rowsToSave(this.#saved, state, nowMs);
    const newCommands = state.commands.loaded.filter((command) => !former?.commands.loaded.includes(command));
    const newRecords = state.commands.records.filter((record) => !former?.commands.records.includes(record));
    const slices = Object.keys(rows).length;
    const others = newCommands.length + newRecords.length + state.newHistory.length;
    if (former !== undefined && !isNewPeriod && slices === 1 && others === 0) {
      // One statement is written whole or not at all without a transaction of its own.
      this.storage.writeSlices(rows);
    } else if (slices + others > 0) {
      this.ctx.storage.transactionSync(() => {
        if (former === undefined) this.storage.create();
        if (isNewPeriod) this.storage.forgetOwner();
        this.storage.writeSlices(rows);
        this.storage.appendHistory(state.newHistory);
        for (const command of newCommands) this.storage.writeCommand(command, nowMs);
        for (const record of newRecords) this.storage.writeIdempotencyRecord(record, nowMs);
      });
    }
    // Set again even for the same time: the alarm that has fired is gone.
    if (state.alarm.setAtMs !== null && state.alarm !== former?.alarm) this.#setAlarm(state.alarm.setAtMs);
    this.#saved = savedState(this.#saved, state, rows);
    const written = afterWrite(state, nowMs);
    this.#device = written.state;
    this.#hasOpenCommands &&= written.isComplete;
  }

  /** Before a user reads it: after an eviction nothing older is shown. */
  saveRejected(): void {
    if (typeof this.#device === 'string' || this.#device.lastRejected === this.#saved?.lastRejected) return;
    const rows = { lastRejected: rowNamed('lastRejected', this.#device) };
    this.storage.writeSlices(rows);
    this.#saved = savedState(this.#saved, this.#device, rows);
  }

  findDigest(passwordDigest: string): string | undefined {
    if (typeof this.#device === 'string') return undefined;
    const { passwords, ended } = this.#device.credentials;
    return [...passwords.map(({ digest }) => digest), ...ended].find((digest) => isEqualDigest(digest, passwordDigest));
  }

  #setAlarm(atMs: number): void {
    inBackground(this.ctx, 'alarm', this.ctx.storage.setAlarm(atMs));
  }

  settings() {
    const { broker, limits } = readConfig(this.env);
    const { reportsConnections, keepAliveSeconds, provisioning } = broker;
    return { reportsConnections, keepAliveSeconds, asksAtLogin: provisioning === 'none', limits };
  }
}

function idempotencyKeyOf(event: DeviceEvent): string | undefined {
  if (event.kind === 'command_requested') return userKey(event.actor, event.request);
  if (event.kind !== 'guest_link_used' || event.requestId === undefined) return undefined;
  return guestKey(event.linkId, event.requestId);
}

function commandsNamedBy(event: DeviceEvent): string[] {
  switch (event.kind) {
    case 'publication_ended':
    case 'cancel_requested':
      return [event.commandId];
    case 'messages_received':
      return event.messages.flatMap(({ action, payload }) => mentionedCommands(action, payload));
    case 'direct_packets_received':
      return [
        ...event.delivered,
        ...event.messages.flatMap(({ action, payload }) => mentionedCommands(action, payload ?? '')),
      ];
    case 'relay_message_received':
      return mentionedCommands(event.action, event.payload);
    default:
      return [];
  }
}
