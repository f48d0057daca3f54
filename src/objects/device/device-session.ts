// One device: what may be asked of it. Each call becomes an event for the core in domain/device, which stored-device.ts decides,
// writes and follows up; or a query, which changes nothing. Never waits for D1 but where it says so.
import { DurableObject } from 'cloudflare:workers';
import { isEqualDigest } from '../../crypto/secrets.ts';
import type { Actor, MemberRole } from '../../domain/access.ts';
import type { Activation, LostDevice, Provisioned } from '../../domain/device/ownership/activation.ts';
import type { CommandRequest, CommandView } from '../../domain/device/commands/commands.ts';
import { liveGenerations } from '../../domain/device/ownership/credentials.ts';
import type { ConnectionReport, Ingested } from '../../domain/device/core/events.ts';
import {
  viewGuestLinks,
  type GuestLinkView,
  type GuestReceipt,
  type GuestUse,
  type GuestView,
  type NewGuestLink,
} from '../../domain/device/commands/guest-links.ts';
import {
  viewOwnership,
  type IdentitySlice,
  type OwnershipView,
  type ProductFacts,
  type TransferOffer,
} from '../../domain/device/ownership/ownership.ts';
import type { MessageResult } from '../../domain/device/messages/inbox.ts';
import type { InvitationChange, Member, Party } from '../../domain/device/ownership/sharing.ts';
import { rowNamed, type DeviceState } from '../../domain/device/core/state.ts';
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
} from '../../domain/device/core/views.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import { refuse, type Outcome } from '../../domain/refusal.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import type { TopicAction } from '../../protocol/mqtt.ts';
import { takeBatch } from './batch-taking.ts';
import { DeviceCommands, type CommandReceipt } from './commands.ts';
import { unpackMessages, type MessageColumns } from '../calls/message-columns.ts';
import type { RelayDelivery } from '../calls/push-to-relays.ts';
import { StoredDevice } from './stored-device.ts';

export type Provisioning = Omit<IdentitySlice, 'deviceId' | 'isDisabled'> & {
  isDisabled?: boolean;
  secretDigest: string;
  passwordDigest: string;
  /** Of the secret that came with the activation. */
  givenSecretDigest?: string | undefined;
} & Partial<Pick<Activation, 'defaultName' | 'policy' | 'claimantId' | 'address' | 'wasActivated'>>;

export type LoginAttempt = {
  productKey: string;
  passwordDigest: string;
  /** False where the client identifier is not the documented one. */
  isClientIdRight?: boolean;
  /** Network address of the device, where the broker tells it. */
  peer?: string | undefined;
  relayShard?: string;
};

export class DeviceSession extends DurableObject<Env> {
  readonly #device: StoredDevice;
  readonly #commands: DeviceCommands;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#device = new StoredDevice(ctx, env);
    this.#commands = new DeviceCommands(this.#device);
  }

  /**
   * Makes the device, or gives one that exists a further messaging password where it may have one (decision: activation,
   * decision: ownership). One that was deleted stays deleted: `device_not_found`. One that D1 knows and that has no session has to
   * be restored first: `device_not_activated`. With a claim D1 has the owner when this answers,
   * unless D1 is away.
   */
  async provision(given: Provisioning): Promise<Outcome<Provisioned>> {
    const { secretDigest, passwordDigest, givenSecretDigest, isDisabled = false, ...more } = given;
    const { defaultName = more.name, policy = null, claimantId, address = null, wasActivated = false, ...facts } = more;
    const { present } = this.#device;
    const secretDigestBefore = typeof present === 'string' ? '' : present.credentials.secretDigest;
    const provisioned = this.#device.decide({
      kind: 'provisioned',
      deviceId: this.ctx.id.name ?? '',
      settings: this.#device.settings(),
      facts: { ...facts, isDisabled },
      ...{ secretDigest, passwordDigest, defaultName, policy, claimantId, address, wasActivated },
      isSecretRight: givenSecretDigest !== undefined && isEqualDigest(secretDigestBefore, givenSecretDigest),
    });
    if (claimantId !== undefined) await this.#device.effects.ended();
    return provisioned;
  }

  /** Checks messaging credentials for a login at the broker, or at a relay shard, which is subscribed from then on. */
  authenticate(attempt: LoginAttempt): Outcome<DeviceIdentity & { generation: number }> {
    const { productKey, isClientIdRight = true, peer: address = null, relayShard, passwordDigest } = attempt;
    const matchedDigest = this.#device.findDigest(passwordDigest);
    return this.#device.decide({
      kind: 'login_attempted',
      productKey,
      isClientIdRight,
      matchedDigest,
      address,
      relayShard,
    });
  }

  /** Opens an MQTT connection of the device itself; 404 where there is no such device. */
  override fetch(request: Request): Response {
    if (typeof this.#device.present === 'string') return new Response(null, { status: 404 });
    return this.#device.edge.accept(request);
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    return this.#device.edge.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#device.edge.closed(socket, code);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#device.edge.failed(socket, error);
  }

  /** A broker says that a session of the device began or ended, or what it said before is in doubt. */
  reportConnection(report: ConnectionReport): void {
    this.#device.decide({ kind: 'connection_reported', report });
  }

  /** Takes the messages of one batch, in order; answers each, and who is to be pushed to. */
  async ingest(
    productKey: string,
    spoolId: string,
    columns: MessageColumns,
  ): Promise<Ingested & Pick<RelayDelivery, 'fleets'>> {
    const messages = unpackMessages(columns);
    const taken = takeBatch(this.#device, this.ctx.id.name ?? '', { productKey, spoolId, messages });
    await this.#device.fleets.learn(taken.readers);
    return { ...taken, fleets: this.#device.fleets.known(taken.readers) };
  }

  /** Answers where the object can save: to tell a message that it cannot take from an object that takes none. */
  async checkStorage(): Promise<void> {
    const { present } = this.#device;
    if (typeof present === 'string') return;
    this.#device.storage.writeSlices({ administration: rowNamed('administration', present) });
    await this.ctx.storage.sync();
  }

  /** Takes a message of a relay session that signed in as the device. */
  publish(
    session: { productKey: string; generation: number },
    action: TopicAction,
    payload: string,
  ): Outcome<MessageResult> {
    return this.#device.decide({ kind: 'relay_message_received', ...session, action, payload });
  }

  /** Whether a relay session that signed in as the device has ended since. */
  hasRevoked({ productKey, generation }: { productKey: string; generation: number }): boolean {
    const { present } = this.#device;
    if (typeof present === 'string') return true;
    const { identity, credentials } = present;
    if (productKey !== identity.productKey || identity.isDisabled) return true;
    return !liveGenerations(credentials, Date.now()).includes(generation);
  }

  /** Messages of this device were dropped on their way because it sends too many: its owner is to see it. */
  reportDropped(count: number): void {
    this.#device.decide({ kind: 'messages_dropped', count });
  }

  status(actor: Actor): Outcome<StatusView> {
    this.#device.checkEdge();
    return this.#device.ask(actor, 'readReports', (state) => viewStatus(state));
  }

  /** `status` as JSON, which the platform hands over for much less than objects: for what comes with every request. */
  statusText(actor: string): string {
    return JSON.stringify(this.status(JSON.parse(actor) as Actor));
  }

  events(actor: Actor, page: PageRequest): Outcome<Page<EventView>> {
    this.#device.checkEdge();
    return this.#device.ask(actor, 'readReports', (state) =>
      viewEvents(state, this.#device.storage.listEvents(), page),
    );
  }

  properties(actor: Actor): Outcome<PropertiesView> {
    return this.#device.ask(actor, 'readReports', (state) => viewProperties(state));
  }

  /** The present state as messages, for a user who may follow the device, or for the device itself. */
  present(actor: Actor | undefined): Outcome<PresentView> {
    const view = (state: DeviceState) => viewPresent(state, Date.now());
    if (actor !== undefined) return this.#device.ask(actor, 'readReports', view);
    const { present } = this.#device;
    if (typeof present === 'string') return refuse({ kind: 'not_found', what: 'device' });
    return { ok: true, value: view(present) };
  }

  /** Answers when the broker has the command, or, where the caller asked for that, the device. */
  command(actor: Actor, request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    return this.#commands.send(actor, request);
  }

  /** `command` as JSON: its arguments and its result. */
  async commandText(given: string): Promise<string> {
    const [actor, request] = JSON.parse(given) as [Actor, CommandRequest];
    return JSON.stringify(await this.command(actor, request));
  }

  listCommands(actor: Actor, page: PageRequest): Outcome<Page<CommandView>> {
    return this.#commands.list(actor, page);
  }

  readCommand(actor: Actor, commandId: string): Outcome<CommandView> {
    return this.#commands.read(actor, commandId);
  }

  cancelCommand(actor: Actor, commandId: string): Outcome<CommandView> {
    return this.#device.decide({ kind: 'cancel_requested', actor, commandId });
  }

  /** Subscribes a relay shard for a socket of a user. */
  subscribe(actor: Actor, productKey: string, shard: string, filter: string): Outcome<null> {
    return this.#device.decide({ kind: 'subscription_requested', actor, productKey, shard, filter });
  }

  /** A shard has no socket for this device; it stays if it registered again since. */
  unsubscribe(shard: string, registrationId: number): void {
    this.#device.decide({ kind: 'subscription_ended', shard, registrationId });
  }

  /** Other relay shards want the messages of all devices of the user than the user's directory has told. */
  endFleetLease(userId: number): void {
    this.#device.fleets.endLease(userId);
  }

  /** Changes its name, disables or enables it; D1 has it when this answers, unless D1 is away and has to catch up. */
  async administer(
    actor: Actor,
    change: { name?: string; isDisabled?: boolean },
  ): Promise<Outcome<{ name: string; isDisabled: boolean }>> {
    const administered = this.#device.decide({ kind: 'administered', actor, change });
    if (administered.ok) await this.#device.effects.ended();
    return administered;
  }

  /** Ends every messaging password but the new one, and with them the device's sessions. */
  async replaceCredentials(
    actor: Actor,
    passwordDigest: string,
    address: string | null = null,
  ): Promise<Outcome<DeviceIdentity>> {
    const replaced = this.#device.decide({ kind: 'credentials_replaced', actor, passwordDigest, address });
    if (replaced.ok) await this.#device.effects.relaySessionsEnded();
    return replaced;
  }

  /** Makes the user a member; D1 has it when this answers, unless D1 is away and has to catch up. */
  /** @param maxMembers where the owner has a limit of their own */
  async join(
    userId: number,
    role: MemberRole,
    invitedBy: number,
    party: Party,
    maxMembers?: number,
  ): Promise<Outcome<Member>> {
    return this.#shared(this.#device.decide({ kind: 'member_joined', userId, role, invitedBy, maxMembers, ...party }));
  }

  async changeMember(actor: Actor, userId: number, role: MemberRole, party: Party): Promise<Outcome<Member>> {
    return this.#shared(this.#device.decide({ kind: 'member_changed', actor, userId, role, ...party }));
  }

  /** When this answers the user's relay subscriptions have ended, unless a shard is away and has to be told later. */
  async removeMember(actor: Actor, userId: number, party: Party): Promise<Outcome<null>> {
    return this.#shared(this.#device.decide({ kind: 'member_removed', actor, userId, ...party }));
  }

  /** For the events alone: D1 has the invitations. */
  noteInvitation(actor: Actor, change: InvitationChange, role: MemberRole | null, party: Party): Outcome<null> {
    return this.#device.decide({ kind: 'invitation_changed', actor, change, role, ...party });
  }

  /** Gives the device up; D1 has its new owner when this answers, unless D1 is away. */
  async release(actor: Actor, defaultName: string): Promise<Outcome<DeviceIdentity>> {
    const released = this.#device.decide({ kind: 'released', actor, defaultName });
    if (released.ok) await this.#device.effects.ended();
    return released;
  }

  offerTransfer(actor: Actor, offer: TransferOffer, address: string | null): Outcome<null> {
    return this.#device.decide({ kind: 'transfer_offered', actor, offer, address });
  }

  withdrawTransfer(actor: Actor, address: string | null): Outcome<null> {
    return this.#device.decide({ kind: 'transfer_withdrawn', actor, address });
  }

  /** The answer of whom the device was offered to; D1 has the new owner when this answers, unless D1 is away. */
  async answerTransfer(
    userId: number,
    offerId: string,
    { isAccepted, address }: { isAccepted: boolean; address: string | null },
  ): Promise<Outcome<null>> {
    const answered = this.#device.decide({ kind: 'transfer_answered', userId, offerId, isAccepted, address });
    if (answered.ok) await this.#device.effects.ended();
    return answered;
  }

  /** What its owner has under way: a pairing window, an offer. */
  readOwnership(actor: Actor): Outcome<OwnershipView> {
    return this.#device.ask(actor, 'transfer', (state) => viewOwnership(state, Date.now()));
  }

  /** @param untilMs null closes the window */
  setPairingWindow(actor: Actor, untilMs: number | null, address: string | null): Outcome<null> {
    return this.#device.decide({ kind: 'pairing_window_set', actor, untilMs, address });
  }

  makeGuestLink(actor: Actor, link: NewGuestLink, address: string | null): Outcome<GuestLinkView> {
    return this.#device.decide({ kind: 'guest_link_made', actor, link, address });
  }

  revokeGuestLink(actor: Actor, linkId: string, address: string | null): Outcome<null> {
    return this.#device.decide({ kind: 'guest_link_revoked', actor, linkId, address });
  }

  listGuestLinks(actor: Actor, page: PageRequest): Outcome<Page<GuestLinkView>> {
    return this.#device.ask(actor, 'share', (state) => pageOf(viewGuestLinks(state, Date.now()), page));
  }

  /** For whoever has the link. Changes nothing. */
  viewAsGuest(linkId: string): Outcome<GuestView> {
    return this.#commands.viewAsGuest(linkId);
  }

  /** Answers when the device has replied, or after `waitSeconds`. */
  useGuestLink(use: Omit<GuestUse, 'commandId' | 'number'>, waitSeconds: number): Promise<Outcome<GuestReceipt>> {
    return this.#commands.sendAsGuest(use, waitSeconds);
  }

  /** What changed in the product that paths without D1 need. */
  changeProduct(facts: ProductFacts): void {
    this.#device.decide({ kind: 'product_changed', facts });
  }

  /** Makes the session of a device again that was lost, from what D1 has of it; nothing where there is one, or was deleted. */
  async restore(lost: Omit<LostDevice, 'deviceId' | 'settings'>): Promise<void> {
    const { name: deviceId = '' } = this.ctx.id;
    this.#device.decide({ kind: 'record_restored', deviceId, settings: this.#device.settings(), ...lost });
    await this.#device.effects.ended();
  }

  /** Whether the device is there; then it writes its projection and members again where D1 has others. */
  compareRecord(projectionVersion: number, membersVersion: number): 'present' | 'unused' | 'deleted' {
    if (typeof this.#device.present === 'string') return this.#device.present;
    this.#device.decide({ kind: 'record_compared', projectionVersion, membersVersion });
    return 'present';
  }

  /** Ends the device: credentials, session, subscriptions. For a while it remembers that there was one. */
  async delete(): Promise<void> {
    this.#device.decide({ kind: 'deleted' });
    await this.#device.effects.relaySessionsEnded();
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    if (this.#device.present === 'deleted') await this.ctx.storage.deleteAll();
    else {
      this.#device.checkEdge();
      this.#device.decide({ kind: 'alarm_fired', scheduledAtMs: info?.scheduledTime ?? Date.now() });
    }
  }

  async #shared<T>(outcome: Outcome<T>): Promise<Outcome<T>> {
    if (outcome.ok) await this.#device.effects.sharingEnded();
    return outcome;
  }
}
