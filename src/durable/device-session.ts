// One device: the shell around the core in domain/device. Each call becomes an event: what the event names is loaded,
// `decide` makes the new state, what changed is written in one transaction together with the alarm, and only then the
// effects run. Nothing else writes. Never writes before it was provisioned, and never waits for D1 but where it says so.
import { DurableObject } from 'cloudflare:workers';
import { createId, isEqualDigest } from '../crypto/secrets.ts';
import type { Actor, MemberRole } from '../domain/access.ts';
import { adoptAlarm } from '../domain/device/alarm.ts';
import { viewCommand, type CommandRequest, type CommandView } from '../domain/device/commands.ts';
import { liveGenerations } from '../domain/device/credentials.ts';
import { ask, decide, type Device } from '../domain/device/decide.ts';
import type { ConnectionReport, DeviceEvent, EventKind, Ingested, Results } from '../domain/device/events.ts';
import { readersOf } from '../domain/device/sharing.ts';
import type { IdentitySlice, ProductFacts } from '../domain/device/identity.ts';
import type { Activation, Provisioned } from '../domain/device/owner-change.ts';
import { viewOwnership, type OwnershipView, type TransferOffer } from '../domain/device/ownership.ts';
import type { MessageResult } from '../domain/device/inbox.ts';
import { mentionedCommands } from '../domain/device/messages.ts';
import { afterWrite, rowsToSave, savedState } from '../domain/device/persistence.ts';
import type { Member } from '../domain/device/state.ts';
import type { DeviceState } from '../domain/device/state.ts';
import {
  pageOf,
  viewEvents,
  viewPresent,
  viewProperties,
  viewStatus,
  type EventView,
  type PresentView,
  type PropertiesView,
  type StatusView,
} from '../domain/device/views.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { refuse, type Outcome } from '../domain/refusal.ts';
import type { DeviceIdentity } from '../domain/topics.ts';
import { readConfig } from '../config.ts';
import { describeError, log } from '../log.ts';
import type { TopicAction } from '../protocol/mqtt.ts';
import type { CommandState } from '../protocol/vocabulary.ts';
import { DeviceEffects } from './device-effects.ts';
import { EdgeSockets } from './edge-sockets.ts';
import { DeviceStorage } from './device-storage.ts';
import { unpackMessages, type MessageColumns } from './message-columns.ts';

export type Provisioning = Omit<IdentitySlice, 'deviceId' | 'isDisabled'> & {
  isDisabled?: boolean;
  secretDigest: string;
  passwordDigest: string;
  /** Of the secret that came with the activation. */
  givenSecretDigest?: string | undefined;
} & Partial<Pick<Activation, 'defaultName' | 'policy' | 'claimantId' | 'address'>>;

export type LoginAttempt = {
  productKey: string;
  passwordDigest: string;
  /** False where the client identifier is not the documented one. */
  isClientIdRight?: boolean;
  /** Network address of the device, where the broker tells it. */
  peer?: string | undefined;
  relayShard?: string;
};

export type CommandReceipt = { commandId: string; deviceOnline: boolean; expiresAtMs: number } & (
  { state?: never; elapsedMs?: never } | { state: CommandState; elapsedMs: number }
);

/** An activation that read the record before the device was deleted has long ended by then. */
const keepTombstoneMs = 3_600_000;

export class DeviceSession extends DurableObject<Env> {
  readonly #storage: DeviceStorage;
  readonly #effects: DeviceEffects;
  readonly #edge: EdgeSockets;
  #device: Device;
  /** As storage has it. */
  #saved: DeviceState | undefined;
  #hasOpenCommands = false;
  #isEdgeChecked = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#storage = new DeviceStorage(ctx.storage);
    this.#effects = new DeviceEffects(
      ctx,
      env,
      (event) => this.#decide(event),
      () => this.#edge,
      () => (typeof this.#device === 'string' ? [] : readersOf(this.#device)),
    );
    this.#edge = new EdgeSockets(
      ctx,
      env,
      {
        decide: (event, onWritten) => this.#decide(event, onWritten),
        findDigest: (digest) => this.#findDigest(digest),
        identity: () => (typeof this.#device === 'string' ? undefined : this.#device.identity),
      },
      this.#effects.pushes,
    );
    this.#device = this.#storage.load(this.#settings());
    if (typeof this.#device === 'string') return;
    const loaded = this.#device;
    this.#saved = loaded;
    // Before the first event: storage alone may not know the device's last message.
    const adopting = ctx.blockConcurrencyWhile(async () => {
      this.#device = adoptAlarm(loaded, await ctx.storage.getAlarm(), Date.now());
    });
    this.#effects.inBackground('read alarm', adopting);
  }

  /**
   * Makes the device, or gives one that exists a further messaging password where it may have one (decision: activation,
   * decision: ownership). One that was deleted stays deleted: `device_not_found`. With a claim D1 has the owner when this answers,
   * unless D1 is away.
   */
  async provision(given: Provisioning): Promise<Outcome<Provisioned>> {
    const { secretDigest, passwordDigest, givenSecretDigest, isDisabled = false, ...more } = given;
    const { defaultName = more.name, policy = null, claimantId, address = null, ...facts } = more;
    const present = typeof this.#device === 'string' ? '' : this.#device.credentials.secretDigest;
    const provisioned = this.#decide({
      kind: 'provisioned',
      deviceId: this.ctx.id.name ?? '',
      settings: this.#settings(),
      facts: { ...facts, isDisabled },
      ...{ secretDigest, passwordDigest, defaultName, policy, claimantId, address },
      isSecretRight: givenSecretDigest !== undefined && isEqualDigest(present, givenSecretDigest),
    });
    if (claimantId !== undefined) await this.#effects.ended();
    return provisioned;
  }

  /** Checks messaging credentials for a login at the broker, or at a relay shard, which is subscribed from then on. */
  authenticate(attempt: LoginAttempt): Outcome<DeviceIdentity & { generation: number }> {
    const { productKey, isClientIdRight = true, peer: address = null, relayShard, passwordDigest } = attempt;
    const matchedDigest = this.#findDigest(passwordDigest);
    return this.#decide({ kind: 'login_attempted', productKey, isClientIdRight, matchedDigest, address, relayShard });
  }

  /** Opens an MQTT connection of the device itself; 404 where there is no such device. */
  override fetch(request: Request): Response {
    if (typeof this.#device === 'string') return new Response(null, { status: 404 });
    return this.#edge.accept(request);
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    return this.#edge.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#edge.closed(socket, code);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#edge.failed(socket, error);
  }

  /** A broker says that a session of the device began or ended, or what it said before is in doubt. */
  reportConnection(report: ConnectionReport): void {
    this.#decide({ kind: 'connection_reported', report });
  }

  /** Takes the messages of one batch, in order; answers each, and who is to be pushed to. */
  ingest(productKey: string, spoolId: string, columns: MessageColumns): Ingested {
    const messages = unpackMessages(columns);
    try {
      return this.#decide({ kind: 'messages_received', productKey, spoolId, messages });
    } catch (error) {
      log('error', 'batch not saved, its messages are taken one by one', { ...this.#about(), ...describeError(error) });
    }
    const others: Ingested['others'] = [];
    let last: Ingested | undefined;
    for (const [position, message] of messages.entries()) {
      try {
        const taken = this.#decide({ kind: 'messages_received', productKey, spoolId, messages: [message] });
        others.push(...taken.others.map((other) => ({ ...other, position })));
        last = taken;
      } catch (error) {
        const { seq } = message;
        log('error', 'message put aside', { ...this.#about(), spoolId, seq, ...describeError(error) });
        this.#decide({ kind: 'message_put_aside', spoolId, seq });
        others.push({ result: 'rejected', reason: 'handling_failed', position });
      }
    }
    return { subscriptions: [], generations: [], readers: [], ...last, others };
  }

  /** Answers where the object can save: to tell a message that it cannot take from an object that takes none. */
  async checkStorage(): Promise<void> {
    if (typeof this.#device === 'string') return;
    const { identity, ownership, credentials, recordCheck } = this.#device;
    this.#storage.writeSlices({ administration: { identity, ownership, credentials, recordCheck } });
    await this.ctx.storage.sync();
  }

  /** Takes a message of a relay session that signed in as the device. */
  publish(
    session: { productKey: string; generation: number },
    action: TopicAction,
    payload: string,
  ): Outcome<MessageResult> {
    return this.#decide({ kind: 'relay_message_received', ...session, action, payload });
  }

  /** Whether a relay session that signed in as the device has ended since. */
  hasRevoked({ productKey, generation }: { productKey: string; generation: number }): boolean {
    if (typeof this.#device === 'string') return true;
    const { identity, credentials } = this.#device;
    if (productKey !== identity.productKey || identity.isDisabled) return true;
    return !liveGenerations(credentials, Date.now()).includes(generation);
  }

  /** Messages of this device were dropped on their way because it sends too many: its owner is to see it. */
  reportDropped(count: number): void {
    this.#decide({ kind: 'messages_dropped', count });
  }

  status(actor: Actor): Outcome<StatusView> {
    this.#checkEdge();
    return ask(this.#device, actor, 'readReports', (state) => viewStatus(state));
  }

  events(actor: Actor, page: PageRequest): Outcome<Page<EventView>> {
    this.#checkEdge();
    return ask(this.#device, actor, 'readReports', (state) =>
      viewEvents(state, this.#storage.listTransitions(), this.#storage.listJournal(), page),
    );
  }

  properties(actor: Actor): Outcome<PropertiesView> {
    return ask(this.#device, actor, 'readReports', (state) =>
      viewProperties(state, this.#storage.listPositionChanges()),
    );
  }

  /** The present state as messages, for a user who may follow the device, or for the device itself. */
  present(actor: Actor | undefined): Outcome<PresentView> {
    const view = (state: DeviceState) => viewPresent(state, Date.now());
    if (actor !== undefined) return ask(this.#device, actor, 'readReports', view);
    if (typeof this.#device === 'string') return refuse({ kind: 'not_found', what: 'device' });
    return { ok: true, value: view(this.#device) };
  }

  /** Answers when the broker has the command, or, where the caller asked for that, the device. */
  async command(actor: Actor, request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    this.#checkEdge();
    const owned = ask(this.#device, actor, 'control', () => this.#storage.nextCommandNumber());
    if (!owned.ok) return owned;
    const commandId = createId('', 16);
    const accepted = this.#decide({ kind: 'command_requested', actor, request, commandId, number: owned.value });
    if (!accepted.ok) return accepted;
    const { publication, ...receipt } = accepted.value;
    const outcome = publication === 'pending' ? await this.#effects.publicationOf(receipt.commandId) : publication;
    if (outcome !== 'sent') return refuse({ kind: 'not_published', because: outcome });
    if (request.waitSeconds === undefined) return { ok: true, value: receipt };
    const isWaiting = () => {
      const command = this.#findCommand(receipt.commandId);
      return command?.deviceAcknowledgedAtMs === null && command.undeliveredBecause === null;
    };
    await this.#effects.waitForReply(receipt.commandId, request.waitSeconds * 1000, isWaiting);
    const command = this.#findCommand(receipt.commandId);
    if (command === undefined || typeof this.#device === 'string') return refuse({ kind: 'not_found', what: 'device' });
    const { state, deviceAcknowledgedAtMs, acceptedAtMs } = viewCommand(this.#device, command, Date.now());
    return { ok: true, value: { ...receipt, state, elapsedMs: (deviceAcknowledgedAtMs ?? Date.now()) - acceptedAtMs } };
  }

  listCommands(actor: Actor, page: PageRequest): Outcome<Page<CommandView>> {
    return ask(this.#device, actor, 'readCommands', (state) => {
      const views = this.#storage.listCommands().map((command) => viewCommand(state, command, Date.now()));
      return pageOf(views, page);
    });
  }

  readCommand(actor: Actor, commandId: string): Outcome<CommandView> {
    const found = ask(this.#device, actor, 'readCommands', (state) => {
      const command = this.#findCommand(commandId);
      return command && viewCommand(state, command, Date.now());
    });
    if (!found.ok) return found;
    const { value } = found;
    return value === undefined ? refuse({ kind: 'not_found', what: 'command', id: commandId }) : { ok: true, value };
  }

  cancelCommand(actor: Actor, commandId: string): Outcome<CommandView> {
    return this.#decide({ kind: 'cancel_requested', actor, commandId });
  }

  /** Subscribes a relay shard for a socket of a user. */
  subscribe(actor: Actor, productKey: string, shard: string, filter: string): Outcome<null> {
    return this.#decide({ kind: 'subscription_requested', actor, productKey, shard, filter });
  }

  /** A shard has no socket for this device; it stays if it registered again since. */
  unsubscribe(shard: string, registrationId: number): void {
    this.#decide({ kind: 'subscription_ended', shard, registrationId });
  }

  /** Changes its name, disables or enables it; D1 has it when this answers, unless D1 is away and has to catch up. */
  async administer(
    actor: Actor,
    change: { name?: string; isDisabled?: boolean },
  ): Promise<Outcome<{ name: string; isDisabled: boolean }>> {
    const administered = this.#decide({ kind: 'administered', actor, change });
    if (administered.ok) await this.#effects.ended();
    return administered;
  }

  /** Ends every messaging password but the new one, and with them the device's sessions. */
  async replaceCredentials(
    actor: Actor,
    passwordDigest: string,
    address: string | null = null,
  ): Promise<Outcome<DeviceIdentity>> {
    const replaced = this.#decide({ kind: 'credentials_replaced', actor, passwordDigest, address });
    if (replaced.ok) await this.#effects.relaySessionsEnded();
    return replaced;
  }

  /** Makes the user a member; D1 has it when this answers, unless D1 is away and has to catch up. */
  async join(userId: number, role: MemberRole, invitedBy: number): Promise<Outcome<Member>> {
    return this.#shared(this.#decide({ kind: 'member_joined', userId, role, invitedBy }));
  }

  async changeMember(actor: Actor, userId: number, role: MemberRole): Promise<Outcome<Member>> {
    return this.#shared(this.#decide({ kind: 'member_changed', actor, userId, role }));
  }

  /** When this answers the user's relay subscriptions have ended, unless a shard is away and has to be told later. */
  async removeMember(actor: Actor, userId: number): Promise<Outcome<null>> {
    return this.#shared(this.#decide({ kind: 'member_removed', actor, userId }));
  }

  /** Gives the device up; D1 has its new owner when this answers, unless D1 is away. */
  async release(actor: Actor, defaultName: string): Promise<Outcome<DeviceIdentity>> {
    const released = this.#decide({ kind: 'released', actor, defaultName });
    if (released.ok) await this.#effects.ended();
    return released;
  }

  offerTransfer(actor: Actor, offer: TransferOffer, address: string | null): Outcome<null> {
    return this.#decide({ kind: 'transfer_offered', actor, offer, address });
  }

  withdrawTransfer(actor: Actor, address: string | null): Outcome<null> {
    return this.#decide({ kind: 'transfer_withdrawn', actor, address });
  }

  /** The answer of whom the device was offered to; D1 has the new owner when this answers, unless D1 is away. */
  async answerTransfer(userId: number, offerId: string, isAccepted: boolean): Promise<Outcome<null>> {
    const answered = this.#decide({ kind: 'transfer_answered', userId, offerId, isAccepted });
    if (answered.ok) await this.#effects.ended();
    return answered;
  }

  /** What its owner has under way: a pairing window, an offer. */
  readOwnership(actor: Actor): Outcome<OwnershipView> {
    return ask(this.#device, actor, 'transfer', (state) => viewOwnership(state, Date.now()));
  }

  /** @param untilMs null closes the window */
  setPairingWindow(actor: Actor, untilMs: number | null, address: string | null): Outcome<null> {
    return this.#decide({ kind: 'pairing_window_set', actor, untilMs, address });
  }

  /** What changed in the product that paths without D1 need. */
  changeProduct(facts: ProductFacts): void {
    this.#decide({ kind: 'product_changed', facts });
  }

  /** Whether the device is there; then it writes its projection again where D1 has another one. */
  compareRecord(projectionVersion: number): 'present' | 'unused' | 'deleted' {
    if (typeof this.#device === 'string') return this.#device;
    this.#decide({ kind: 'record_compared', projectionVersion });
    return 'present';
  }

  /** Ends the device: credentials, session, subscriptions. For a while it remembers that there was one. */
  async delete(): Promise<void> {
    this.#decide({ kind: 'deleted' });
    await this.#effects.relaySessionsEnded();
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    if (this.#device === 'deleted') await this.ctx.storage.deleteAll();
    else {
      this.#checkEdge();
      this.#decide({ kind: 'alarm_fired', scheduledAtMs: info?.scheduledTime ?? Date.now() });
    }
  }

  async #shared<T>(outcome: Outcome<T>): Promise<Outcome<T>> {
    if (outcome.ok) await this.#effects.sharingEnded();
    return outcome;
  }

  /** Before an answer about presence: the socket knows of packets that the state does not, and of its own loss. */
  #checkEdge(): void {
    this.#isEdgeChecked = true;
    if (typeof this.#device === 'string' || this.#device.edge.session === null) return;
    this.#decide({ kind: 'edge_checked', open: this.#edge.openSession() });
  }

  #decide<Kind extends EventKind>(
    event: Extract<DeviceEvent, { kind: Kind }>,
    onWritten?: (result: Results[Kind]) => void,
  ): Results[Kind] {
    // At each wake, before anything else.
    if (!this.#isEdgeChecked) this.#checkEdge();
    const nowMs = Date.now();
    const before = this.#load(event, nowMs);
    const { state, effects, result } = decide<Kind>(before, event, nowMs);
    if (state !== before) this.#commit(before, state, nowMs);
    onWritten?.(result);
    this.#effects.run(effects);
    return result;
  }

  /** The device with the commands and stored answers that the event may read. */
  #load(event: DeviceEvent, nowMs: number): Device {
    if (typeof this.#device === 'string') return this.#device;
    if (!this.#hasOpenCommands) {
      const commands = { ...this.#device.commands, loaded: this.#storage.listOpenCommands() };
      this.#device = { ...this.#device, commands };
      this.#hasOpenCommands = true;
    }
    const { commands } = this.#device;
    const named = commandsNamedBy(event).filter((id) => commands.loaded.every(({ commandId }) => commandId !== id));
    const found = named.flatMap((id) => this.#storage.findCommand(id) ?? []);
    const key = event.kind === 'command_requested' ? event.request.idempotencyKey : undefined;
    const record = key === undefined ? undefined : this.#storage.findIdempotencyRecord(key, nowMs);
    if (found.length === 0 && record === undefined) return this.#device;
    const loaded = [...commands.loaded, ...found].sort((one, other) => other.number - one.number);
    return { ...this.#device, commands: { ...commands, loaded, records: record === undefined ? [] : [record] } };
  }

  /** Writes what changed and sets the alarm: together or not at all. Memory follows storage. */
  #commit(before: Device, state: Device, nowMs: number): void {
    if (typeof state === 'string') {
      this.ctx.storage.transactionSync(() => this.#storage.replaceByTombstone());
      this.#setAlarm(nowMs + keepTombstoneMs);
      this.#device = state;
      this.#saved = undefined;
      return;
    }
    const known = typeof before === 'string' ? undefined : before;
    const isNewLife = known !== undefined && known.ownership.life !== state.ownership.life;
    if (isNewLife) this.#saved = undefined;
    const rows = rowsToSave(this.#saved, state, nowMs);
    const newCommands = state.commands.loaded.filter((command) => !known?.commands.loaded.includes(command));
    const newRecords = state.commands.records.filter((record) => !known?.commands.records.includes(record));
    const hasRows = Object.keys(rows).length + newCommands.length + newRecords.length + state.newHistory.length > 0;
    if (hasRows) {
      this.ctx.storage.transactionSync(() => {
        if (known === undefined) this.#storage.create();
        if (isNewLife) this.#storage.forgetOwner();
        this.#storage.writeSlices(rows);
        this.#storage.appendHistory(state.newHistory);
        for (const command of newCommands) this.#storage.writeCommand(command, nowMs);
        for (const record of newRecords) this.#storage.writeIdempotencyRecord(record, nowMs);
      });
    }
    // Another one also where the time is the same: the one that has fired is gone.
    if (state.alarm.setAtMs !== null && state.alarm !== known?.alarm) this.#setAlarm(state.alarm.setAtMs);
    this.#saved = savedState(this.#saved, state, rows);
    const written = afterWrite(state, nowMs);
    this.#device = written.state;
    this.#hasOpenCommands &&= written.isComplete;
  }

  #findDigest(passwordDigest: string): string | undefined {
    if (typeof this.#device === 'string') return undefined;
    const { passwords, ended } = this.#device.credentials;
    return [...passwords.map(({ digest }) => digest), ...ended].find((digest) => isEqualDigest(digest, passwordDigest));
  }

  #setAlarm(atMs: number): void {
    this.#effects.inBackground('alarm', this.ctx.storage.setAlarm(atMs));
  }

  #findCommand(commandId: string) {
    return typeof this.#device === 'string' ? undefined : this.#storage.findCommand(commandId);
  }

  #settings() {
    const { broker, limits } = readConfig(this.env);
    const { reportsConnections, keepAliveSeconds, provisioning } = broker;
    return { reportsConnections, keepAliveSeconds, asksAtLogin: provisioning === 'none', limits };
  }

  #about() {
    return { deviceId: this.ctx.id.name };
  }
}

function commandsNamedBy(event: DeviceEvent): string[] {
  switch (event.kind) {
    case 'publication_ended':
    case 'cancel_requested':
      return [event.commandId];
    case 'messages_received':
      return event.messages.flatMap(({ action, payload }) => mentionedCommands(action, payload));
    case 'edge_packets_received':
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
