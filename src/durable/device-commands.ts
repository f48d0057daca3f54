// Commands to one device: each step of their life in storage before anything waits, published through the broker link
// and seen by the relay subscribers of property/set. What a step means is domain/command-life.ts.
import { createId } from '../crypto/secrets.ts';
import {
  acceptCommand,
  describeCommand,
  isOpen,
  isPending,
  markCancelled,
  markPublished,
  markReplied,
  markReturned,
  markShown,
  markUnpublished,
  type Command,
} from '../domain/command-life.ts';
import type { CommandState } from '../protocol/vocabulary.ts';
import { encodeControl, type ControlParams } from '../domain/control-command.ts';
import { refuse, type Outcome } from '../domain/refusal.ts';
import type { Json } from '../domain/property-report.ts';
import { topicOf } from '../domain/topics.ts';
import { topicActions } from '../protocol/mqtt.ts';
import { isCertainlyUnpublished, type PublishOutcome } from '../domain/publish-outcome.ts';
import { DeviceCommandStorage, type Repeatable } from './device-command-storage.ts';
import type { DeviceState } from './device-state.ts';
import { pushToRelays, type RelayRun } from './relay-push.ts';
import { OrderedBrokerLink } from './stubs.ts';

export type CommandRequest = {
  params: ControlParams;
  /** Keeps the command for a device that is away. */
  ttlSeconds: number | undefined;
  /** Holds the answer until the device replied. */
  waitSeconds: number | undefined;
  idempotencyKey: string | undefined;
};

export type CommandReceipt = { commandId: string; deviceOnline: boolean; expiresAtMs: number } & (
  { state?: never; elapsedMs?: never } | { state: CommandState; elapsedMs: number }
);

export type CommandView = Command & { state: CommandState; reason: string | null };

/** A bridge or broker that has not taken a command by then never will. The caller hears of it half a second later. */
const publishWithinMs = 4_500;
/** The broker keeps a command no longer than this for a session it still believes in, nor than the command lives. */
const maxMessageExpirySeconds = 10;
/** Open commands that are looked at, newest first: a newer one ends what an older one waits for. */
const maxOpen = 8;

export class DeviceCommands {
  readonly #env: Env;
  readonly #state: DeviceState;
  readonly #storage: DeviceCommandStorage;
  readonly #settle: () => void;
  /** Asked of the broker at this moment. */
  readonly #inFlight = new Map<string, Promise<boolean>>();
  readonly #waiting = new Map<string, Set<() => void>>();
  /** As in storage; undefined until it was read. */
  #open: Command[] | undefined;
  readonly #link: OrderedBrokerLink;

  /** `settle` is called after each change that no call of the session made. */
  constructor(storage: DurableObjectStorage, env: Env, state: DeviceState, settle: () => void) {
    this.#env = env;
    this.#link = new OrderedBrokerLink(env);
    this.#state = state;
    this.#settle = settle;
    this.#storage = new DeviceCommandStorage(storage);
  }

  /** Answers when the broker has the command, or, where the caller asked for that, the device. */
  async send(request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    const nowMs = Date.now();
    const { params, ttlSeconds, idempotencyKey } = request;
    const digest = JSON.stringify([Object.entries(params).sort(), ttlSeconds ?? null]);
    const known = idempotencyKey === undefined ? undefined : this.#storage.findRepeatable(idempotencyKey, nowMs);
    if (known !== undefined) return known.digest === digest ? this.#answer(known, request) : keyIsTaken;
    const { record, live } = this.#state;
    if (record.isDisabled) return refuse({ kind: 'device_disabled', deviceId: this.#state.record.deviceId });
    if (record.controlMode === 'readonly')
      return refuse({ kind: 'product_readonly', productKey: this.#state.record.productKey });

    const commandId = createId('', 16);
    const command = acceptCommand({ commandId, number: this.#storage.nextNumber(), params }, ttlSeconds, nowMs);
    this.#storage.add(command, isOpen(command, nowMs));
    if (isOpen(command, nowMs)) this.#open = this.#open && [command, ...this.#open].slice(0, maxOpen);
    const { expiresAtMs } = command;
    const answer: Repeatable = { digest, commandId, deviceOnline: live.presence.isOnline, expiresAtMs, isSent: null };
    if (idempotencyKey !== undefined) this.#storage.putRepeatable(idempotencyKey, answer, nowMs);
    answer.isSent = await this.#publish(command);
    if (idempotencyKey !== undefined && this.#state.isProvisioned) {
      this.#storage.putRepeatable(idempotencyKey, answer, nowMs);
    }
    return this.#answer(answer, request);
  }

  /** The device's reply. One that belongs to no command changes nothing. */
  acknowledge(commandId: string, code: number | null): void {
    this.#change(commandId, (command, nowMs) => markReplied(command, code, nowMs));
    this.#wake(commandId);
  }

  /** A report may show the newest command's result; an older one's cannot be told from it any more. */
  confirm(reported: ReadonlyMap<string, Json>, changed: ReadonlyMap<string, Json>): void {
    const newest = this.#openOnes().find(({ brokerAcknowledgedAtMs }) => brokerAcknowledgedAtMs !== null);
    if (newest === undefined || markShown(newest, reported, changed, Date.now()) === newest) return;
    this.#change(newest.commandId, (command, nowMs) => markShown(command, reported, changed, nowMs));
  }

  /** Publishes kept commands again that the device has not answered. */
  onReturn(): void {
    for (const { commandId } of this.#pendingOnes()) this.#change(commandId, markReturned);
    this.publishDue();
  }

  publishDue(): void {
    const nowMs = Date.now();
    const due = this.#attempts().find(({ attemptAtMs }) => attemptAtMs !== null && attemptAtMs <= nowMs);
    if (due !== undefined) void this.#publish(due);
  }

  dueAtMs(): number | null {
    const times = this.#attempts().flatMap(({ attemptAtMs }) => attemptAtMs ?? []);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Newest first. */
  list(): CommandView[] {
    return this.#storage.list().map((command) => this.#view(command));
  }

  find(commandId: string): CommandView | undefined {
    const command = this.#storage.find(commandId);
    return command && this.#view(command);
  }

  /** Ends a command that waits for its device; says why it cannot be ended otherwise. */
  cancel(commandId: string): Outcome<CommandView> {
    const command = this.find(commandId);
    if (command === undefined) return refuse({ kind: 'not_found', what: 'command' });
    if (command.state !== 'waiting' || this.#inFlight.has(commandId)) {
      const state = command.state === 'sent' || command.state === 'accepted' ? 'published' : command.state;
      return refuse({ kind: 'invalid_input', path: 'commandId', problem: `is ${state} already` });
    }
    return {
      ok: true,
      value: this.#view(this.#change(commandId, (one) => markCancelled(one, 'requested')) ?? command),
    };
  }

  /** Whether the broker has it. Never throws: infrastructure that fails has not taken the command. */
  async #publish(command: Command): Promise<boolean> {
    const { commandId, params, acceptedAtMs } = command;
    const topic = topicOf(this.#state.record, topicActions.propertySet);
    const payload = encodeControl(params, commandId, acceptedAtMs);
    const startedAtMs = Date.now();
    const expiresAtMs = startedAtMs + publishWithinMs;
    const leftSeconds = Math.ceil((command.expiresAtMs - startedAtMs) / 1000);
    const messageExpirySeconds = Math.min(maxMessageExpirySeconds, leftSeconds);
    const asked: Promise<PublishOutcome> = this.#link.publish({ topic, payload, expiresAtMs, messageExpirySeconds });
    const taken = asked.then(
      (outcome) => this.#settlePublication(command, startedAtMs, outcome, { topic, payload }),
      () => {
        return this.#settlePublication(command, startedAtMs, { ok: false, reason: 'unreachable' }, { topic, payload });
      },
    );
    this.#inFlight.set(commandId, taken);
    return taken;
  }

  #settlePublication(
    { commandId, number }: Command,
    startedAtMs: number,
    outcome: PublishOutcome,
    message: { topic: string; payload: string },
  ): boolean {
    this.#inFlight.delete(commandId);
    if (!this.#state.isProvisioned) return outcome.ok;
    const { presence } = this.#state.live;
    const listeners = this.#state.live.listeners.filter(({ ignoresCommands }) => ignoresCommands !== true);
    if (outcome.ok) {
      // A subscriber of the relay may be the device itself, which then answers there.
      const hasReachedNobody = outcome.hasSubscribers === false && listeners.length === 0;
      const publication = { startedAtMs, acknowledgedAtMs: outcome.publishedAtMs, hasReachedNobody };
      this.#change(commandId, (command, nowMs) => markPublished(command, publication, presence.isOnline, nowMs));
      for (const older of this.#pendingOnes()) {
        if (older.number < number) this.#change(older.commandId, (command) => markCancelled(command, 'replaced'));
      }
      const run: RelayRun = {
        deviceId: this.#state.record.deviceId,
        topic: message.topic,
        payloads: [message.payload],
      };
      this.#state.afterFlush(() => pushToRelays(this.#env, [{ run, listeners }]));
    } else {
      const isKnown = isCertainlyUnpublished(outcome.reason);
      this.#change(commandId, (command, nowMs) => markUnpublished(command, isKnown, nowMs));
    }
    this.publishDue();
    this.#settle();
    return outcome.ok;
  }

  async #answer(answer: Repeatable, { waitSeconds }: CommandRequest): Promise<Outcome<CommandReceipt>> {
    const { commandId, deviceOnline, expiresAtMs } = answer;
    const isSent = answer.isSent ?? (await this.#inFlight.get(commandId)) ?? false;
    if (!isSent) return refuse({ kind: 'not_published', because: 'no_bridge' });
    const receipt = { commandId, deviceOnline, expiresAtMs };
    if (waitSeconds === undefined) return { ok: true, value: receipt };
    await this.#waitForReply(commandId, waitSeconds * 1000);
    const command = this.#state.isProvisioned ? this.find(commandId) : undefined;
    if (command === undefined) return refuse({ kind: 'not_found', what: 'device' });
    const elapsedMs = (command.deviceAcknowledgedAtMs ?? Date.now()) - command.acceptedAtMs;
    return { ok: true, value: { ...receipt, state: command.state, elapsedMs } };
  }

  /** The request that waits keeps the object awake, so that its timer holds up no sleep of its own. */
  async #waitForReply(commandId: string, waitMs: number): Promise<void> {
    const command = this.#state.isProvisioned ? this.#storage.find(commandId) : undefined;
    const isOver =
      command === undefined || command.deviceAcknowledgedAtMs !== null || command.undeliveredBecause !== null;
    if (isOver) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const wakeUp = () => resolve(undefined);
    const waiting = this.#waiting.get(commandId) ?? new Set();
    this.#waiting.set(commandId, waiting.add(wakeUp));
    const timer = setTimeout(wakeUp, waitMs);
    await promise;
    clearTimeout(timer);
    waiting.delete(wakeUp);
    if (waiting.size === 0) this.#waiting.delete(commandId);
  }

  #wake(commandId: string): void {
    for (const wakeUp of this.#waiting.get(commandId) ?? []) wakeUp();
  }

  /** The command after the change; a row only where it changed. */
  #change(commandId: string, change: (command: Command, nowMs: number) => Command): Command | undefined {
    const before = this.#open?.find((command) => command.commandId === commandId) ?? this.#storage.find(commandId);
    if (before === undefined) return undefined;
    const nowMs = Date.now();
    const after = change(before, nowMs);
    if (after === before) return before;
    this.#storage.update(after, isOpen(after, nowMs));
    // One that is over makes room for an older one, where there were more than are kept here.
    if (isOpen(after, nowMs)) this.#open = this.#open?.map((command) => (command === before ? after : command));
    else if (this.#open?.length === maxOpen) this.#open = undefined;
    else this.#open = this.#open?.filter((command) => command !== before);
    return after;
  }

  #openOnes(): Command[] {
    return (this.#open ??= this.#storage.listOpen(maxOpen));
  }

  #pendingOnes(): Command[] {
    const nowMs = Date.now();
    return this.#openOnes().filter((command) => isPending(command, nowMs));
  }

  /** Kept commands whose turn it may be: none while another is under way, which may end them. */
  #attempts(): Command[] {
    const mayPublish =
      this.#state.live.presence.isOnline && !this.#state.record.isDisabled && this.#inFlight.size === 0;
    return mayPublish ? this.#pendingOnes() : [];
  }

  #view(command: Command): CommandView {
    return { ...command, ...describeCommand(command, this.#state.live.presence.isOnline, Date.now()) };
  }
}

const keyIsTaken = refuse({
  kind: 'invalid_input',
  path: 'Idempotency-Key',
  problem: 'was used for another command',
});
