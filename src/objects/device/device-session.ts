// One device: what may be asked of it. Each call becomes an event for the core in domain/device, which stored-device.ts decides,
// writes and follows up; or a query, which changes nothing. Waits for D1 only if a comment says so.
import { DurableObject } from 'cloudflare:workers';
import { isEqualDigest } from '../../crypto/secrets.ts';
import type { Actor, DeviceAction } from '../../domain/access.ts';
import type { Activation, LostDevice, Provisioned } from '../../domain/device/ownership/activation.ts';
import { viewFirmware, type Offer, type UpdateReport } from '../../domain/device/firmware/updates.ts';
import type { Command } from '../../domain/device/commands/command-life.ts';
import {
  refuseCommand,
  viewCommand,
  type CommandRequest,
  type CommandView,
} from '../../domain/device/commands/commands.ts';
import { liveGenerations } from '../../domain/device/ownership/credentials.ts';
import type { EventOf, Ingested, RequestKind, Results } from '../../domain/device/core/events.ts';
import type { InboundMessage } from '../../domain/device/messages/inbox.ts';
import {
  countUsesLeft,
  keysOfLinks,
  viewAsGuest,
  viewGuestLinks,
  type GuestReceipt,
  type GuestUse,
  type GuestView,
} from '../../domain/device/commands/guest-links.ts';
import { viewOwnership, type ProductFacts } from '../../domain/device/ownership/ownership.ts';
import { listNext, viewSchedule } from '../../domain/device/times/schedules.ts';
import { witnessElsewhere, freshActual, viewActual } from '../../domain/device/witness/witness.ts';
import { shareAway, type HistoryEntry } from '../../domain/device/core/history.ts';
import { canonicalJson } from '../../domain/json.ts';
import { readMoved, rowNamed, slicesToMove, type DeviceState } from '../../domain/device/core/state.ts';
import {
  pageOf,
  viewEvents,
  viewEventsAfter,
  viewPresent,
  viewProperties,
  viewRuns,
  viewStatus,
  type StatusView,
  type PresentView,
} from '../../domain/device/core/views.ts';
import type { SeriesDay } from '../../domain/device/usage/series.ts';
import { zoneOfOwner, type Day } from '../../domain/device/usage/usage.ts';
import { viewHistory, viewUsage } from '../../domain/device/usage/views.ts';
import { viewHome, type HomeView } from '../../domain/home/view.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { accept, refuse, type Outcome } from '../../domain/refusal.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import type { HistoryQuery, UsageQuery } from '../../protocol/http/usage.ts';
import type { WitnessSettings } from '../../protocol/http/witness.ts';
import { DeviceCommands, type CommandReceipt } from './commands.ts';
import { DeviceEffects } from './effects.ts';
import { DeviceFleets } from './fleets.ts';
import { DirectSockets } from './direct-sockets.ts';
import { RelayPushes } from './relay-pushes.ts';
import type { RelayDelivery } from '../calls/push-to-relays.ts';
import type { DeviceStorage } from './storage.ts';
import { StoredDevice } from './stored-device.ts';

/** `givenSecretDigest`: of the `deviceSecret` that came with the activation. */
type Provisioning = Omit<Activation, 'isSecretRight'> & { givenSecretDigest: string | undefined };

export type LoginAttempt = {
  productKey: string;
  passwordDigest: string;
  isClientIdRight?: boolean;
  peer?: string | undefined;
  relayShard?: string;
};

/** Nothing was sent: its witness has just seen that it is so. */
export type NotNeeded = { message: 'not_needed'; actual: NonNullable<StatusView['actual']> };
export type WitnessView = WitnessSettings & { actual: (StatusView['actual'] & {}) | null };

/** What an export has of a device: its slices, by name, and what its rings remember. */
export type DeviceRecord = { history: HistoryEntry[]; commands: Command[]; [slice: string]: unknown };

const noDevice = refuse({ kind: 'not_found', what: 'device' });

export class DeviceSession extends DurableObject<Env> {
  readonly #device: StoredDevice = new StoredDevice(this.ctx, this.env, () => ({
    effects: this.#effects,
    sockets: this.#sockets,
    fleets: this.#fleets,
  }));
  readonly #fleets = new DeviceFleets(this.#device);
  readonly #pushes = new RelayPushes(this.#device, this.#fleets);
  readonly #sockets = new DirectSockets(this.#device, this.#pushes);
  readonly #commands = new DeviceCommands(this.#device, this.#sockets);
  readonly #effects = new DeviceEffects(this.#device, {
    sockets: this.#sockets,
    commands: this.#commands,
    pushes: this.#pushes,
    fleets: this.#fleets,
  });

  /** Answers once D1 and the relay shards were told of the change. If they did not take it, the alarm tries again. */
  decide<Kind extends RequestKind>(event: EventOf<Kind>): Promise<Results[Kind]> {
    return this.#device.decideAndWait<Kind>(event);
  }

  /** A deleted device stays deleted. A device whose session was lost has to be restored before (`device_not_activated`). */
  async provision({ givenSecretDigest, ...activation }: Provisioning): Promise<Outcome<Provisioned>> {
    const { present } = this.#device;
    const secretDigest = typeof present === 'string' ? '' : present.credentials.secretDigest;
    const isSecretRight = givenSecretDigest !== undefined && isEqualDigest(secretDigest, givenSecretDigest);
    const { name: deviceId = '' } = this.ctx.id;
    const settings = this.#device.settings();
    return this.#device.decideAndWait({ kind: 'provisioned', deviceId, settings, ...activation, isSecretRight });
  }

  /** Checks messaging credentials for a login at the broker, or at a relay shard, which is subscribed from then on. */
  authenticate(attempt: LoginAttempt): Outcome<DeviceIdentity & { generation: number }> {
    const { passwordDigest, relayShard, productKey, isClientIdRight = true, peer: address = null } = attempt;
    const login = { productKey, isClientIdRight, matchedDigest: this.#device.findDigest(passwordDigest) };
    return this.#device.decide({ kind: 'login_attempted', ...login, address, relayShard });
  }

  override fetch(request: Request): Response {
    if (typeof this.#device.present === 'string') return new Response(null, { status: 404 });
    return this.#sockets.accept(request);
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    return this.#sockets.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#sockets.closed(socket, code);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#sockets.failed(socket, error);
  }

  async ingest(
    productKey: string,
    spoolId: string,
    messages: InboundMessage[],
  ): Promise<Ingested & Pick<RelayDelivery, 'fleets'>> {
    const ingested = this.#device.takeBatch({ productKey, spoolId, messages });
    await this.#fleets.learn(ingested.readers);
    return { ...ingested, fleets: this.#fleets.registrationsOf(ingested.readers) };
  }

  /** @throws if the object cannot save: tells a message that it cannot take from an object that takes none */
  async checkStorage(): Promise<void> {
    const { present } = this.#device;
    if (typeof present === 'string') return;
    this.#device.storage.writeSlices({ administration: rowNamed('administration', present) });
    await this.ctx.storage.sync();
  }

  hasRevoked({ productKey, generation }: { productKey: string; generation: number }): boolean {
    const { present } = this.#device;
    if (typeof present === 'string') return true;
    const { identity, credentials } = present;
    if (productKey !== identity.productKey || identity.isDisabled) return true;
    return !liveGenerations(credentials, Date.now()).includes(generation);
  }

  status(actor: Actor) {
    return this.#device.ask(actor, 'readReports', (state) => viewStatus(state, Date.now()));
  }

  events(actor: Actor, page: PageRequest) {
    const view = (state: DeviceState) => viewEvents(state, this.#device.storage.listEvents(), page, actor);
    return this.#device.ask(actor, 'readReports', view);
  }

  eventsAfter(actor: Actor, after: number, count: number) {
    return this.#device.ask(actor, 'readReports', (state) => {
      const { last } = state.outgoing;
      return viewEventsAfter(state, this.#device.storage.listEventsAfter(after, last, count), actor);
    });
  }

  properties(actor: Actor) {
    return this.#device.ask(actor, 'readReports', (state) => {
      this.#device.saveRejected();
      return viewProperties(state);
    });
  }

  usage(actor: Actor, query: UsageQuery) {
    const daysIn = (first: number, last: number) => this.#device.storage.listDays('day', first, last) as Day[];
    return this.#viewDays(actor, (state, zone) => viewUsage(state, query, daysIn, zone, Date.now()));
  }

  history(actor: Actor, query: HistoryQuery) {
    const daysIn = (...range: Parameters<DeviceStorage['listDays']>) =>
      this.#device.storage.listDays(...range) as SeriesDay[];
    return this.#viewDays(actor, (state, zone) => viewHistory(state, query, daysIn, zone, Date.now()));
  }

  firmware(actor: Actor) {
    return this.#device.ask(actor, 'readReports', viewFirmware);
  }

  /** What became of the offer of a campaign. `usuallyAway`: of the device's last days; absent if not `isNew`. */
  offerUpdate(offer: Offer, isStopped: boolean, isNew: boolean): Outcome<UpdateReport & { usuallyAway?: number }> {
    const offered = this.#device.decide({ kind: 'update_offered', offer, isStopped });
    if (!offered.ok) return offered;
    if (!isNew) return offered;
    const usuallyAway = shareAway(this.#device.storage.listEvents().transitions, Date.now());
    return accept({ ...offered.value, usuallyAway });
  }

  /** The present state as messages, for a user who may follow the device, or for the device itself. */
  present(actor: Actor | undefined): Outcome<PresentView> {
    const view = (state: DeviceState) => viewPresent(state, Date.now());
    if (actor !== undefined) return this.#device.ask(actor, 'readReports', view);
    const { present } = this.#device;
    return typeof present === 'string' ? noDevice : accept(view(present));
  }

  /** For a home of the actor, which is told from now on when a command ends or the witness sees a change. */
  async home(actor: Actor): Promise<Outcome<HomeView>> {
    const allowed = this.allows(actor, 'readReports');
    if (!allowed.ok) return allowed;
    await this.#fleets.learn([actor.userId]);
    const view = (state: DeviceState) => viewHome(state, this.#device.storage.newestCommand(), actor, Date.now());
    return this.#device.ask(actor, 'readReports', view);
  }

  async command(actor: Actor, request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    this.#device.checkDirect();
    const accepted = this.#device.decide({ kind: 'command_requested', actor, request });
    return accepted.ok ? this.#commands.follow(accepted.value, request.waitSeconds, request.until) : accepted;
  }

  async ensure(
    actor: Actor,
    request: CommandRequest & { ensures: 'on' | 'off' },
  ): Promise<Outcome<CommandReceipt | NotNeeded>> {
    const asked = this.#device.ask(actor, 'control', witnessElsewhere);
    if (!asked.ok) return asked;
    const { value: deviceId } = asked;
    if (deviceId !== undefined) await this.#effects.askWitness({ deviceId, untilMs: 0, commandId: null });
    const seen = this.#device.ask(actor, 'control', (state) => freshActual(state, Date.now()));
    if (!seen.ok) return seen;
    const { value: actual } = seen;
    if (actual?.value === request.ensures) return accept({ message: 'not_needed', actual });
    // Presses only if it was seen to be otherwise: that is part of the decision.
    return this.command(actor, request);
  }

  readWitness(actor: Actor): Outcome<WitnessView | null> {
    return this.#device.ask(actor, 'readReports', (state) => {
      const { settings } = state.witness;
      return settings && { ...settings, actual: viewActual(state, Date.now()) };
    });
  }

  /** Null if a command would be taken. */
  wouldTake(actor: Actor) {
    return this.#device.ask(actor, 'control', (state) => refuseCommand(state) ?? null);
  }

  listCommands(actor: Actor, page: PageRequest) {
    return this.#device.ask(actor, 'readCommands', (state) => {
      const view = (command: Command) => viewCommand(state, command, Date.now(), actor);
      return pageOf(this.#device.storage.listCommands().map(view), page);
    });
  }

  readCommand(actor: Actor, commandId: string): Outcome<CommandView> {
    const viewed = this.#device.ask(actor, 'readCommands', (state) => {
      const command = this.#device.storage.findCommand(commandId);
      return command && viewCommand(state, command, Date.now(), actor);
    });
    if (!viewed.ok) return viewed;
    const { value } = viewed;
    return value === undefined ? refuse({ kind: 'not_found', what: 'command', id: commandId }) : accept(value);
  }

  /** The user's directory has other relay shards than it has told, or also other webhooks. */
  endFleetLease(userId: number, areWebhooksOld: boolean): void {
    if (this.#device.identity() === undefined) return;
    this.#fleets.endLease(userId, areWebhooksOld);
    // What waits for a receiver that failed goes on.
    if (areWebhooksOld) this.#device.decide({ kind: 'webhooks_changed' });
  }

  /** For what others keep of the device: D1 may not know yet that it has another owner. */
  allows(actor: Actor, action: DeviceAction): Outcome<null> {
    return this.#device.ask(actor, action, () => null);
  }

  readOwnership(actor: Actor) {
    return this.#device.ask(actor, 'transfer', (state) => viewOwnership(state, Date.now()));
  }

  async listGuestLinks(actor: Actor, page: PageRequest) {
    const allowed = this.allows(actor, 'share');
    if (!allowed.ok) return allowed;
    await this.#endLinksOfKeys();
    return this.#device.ask(actor, 'share', (state) => pageOf(viewGuestLinks(state, Date.now()), page));
  }

  listSchedules(actor: Actor) {
    return this.#device.ask(actor, 'readSchedules', (state) =>
      state.schedules.map((schedule) => viewSchedule(state, schedule, actor)),
    );
  }

  listNext(actor: Actor, count: number) {
    return this.#device.ask(actor, 'readSchedules', (state) => listNext(state, count));
  }

  listRuns(actor: Actor, page: PageRequest) {
    return this.#device.ask(actor, 'readSchedules', (state) => viewRuns(state, this.#device.storage.listRuns(), page));
  }

  async viewAsGuest(linkId: string): Promise<Outcome<GuestView>> {
    await this.#endLinksOfKeys(linkId);
    this.#device.checkDirect();
    const { present } = this.#device;
    return typeof present === 'string' ? noDevice : viewAsGuest(present, linkId, Date.now());
  }

  async useGuestLink(use: GuestUse, waitSeconds: number): Promise<Outcome<GuestReceipt>> {
    await this.#endLinksOfKeys(use.linkId);
    this.#device.checkDirect();
    const accepted = this.#device.decide({ kind: 'guest_link_used', ...use });
    if (!accepted.ok) return accepted;
    const followed = await this.#commands.follow(accepted.value, waitSeconds);
    const { present } = this.#device;
    if (!followed.ok || typeof present === 'string') return followed.ok ? noDevice : followed;
    const usesLeft = countUsesLeft(present, use.linkId, Date.now());
    return accept({ ...followed.value, deviceName: present.identity.name, usesLeft });
  }

  changeProduct(facts: ProductFacts): void {
    this.#device.decide({ kind: 'product_changed', facts });
  }

  /** Makes a lost session again from what D1 has of the device. Changes nothing if there is a session, or the device was deleted. */
  async restore(lost: Omit<LostDevice, 'deviceId' | 'settings'>): Promise<void> {
    const { name: deviceId = '' } = this.ctx.id;
    await this.#device.decideAndWait({ kind: 'record_restored', deviceId, settings: this.#device.settings(), ...lost });
  }

  /** For another deployment; null without a session. */
  exportRecord(): DeviceRecord | null {
    const { present, storage } = this.#device;
    if (typeof present === 'string') return null;
    return { ...slicesToMove(present), history: storage.listHistory(), commands: storage.listCommands() };
  }

  /** Makes the device from an export, unless there is one. `unreadable`: of another device, or of a newer version. */
  importRecord(
    record: DeviceRecord,
    projectionVersion: number,
    membersVersion: number,
  ): 'taken' | 'there' | 'differs' | 'deleted' | 'unreadable' {
    const { present } = this.#device;
    if (present === 'deleted') return present;
    const isThere = present !== 'unused';
    if (isThere) return canonicalJson(this.exportRecord()) === canonicalJson(record) ? 'there' : 'differs';
    const { history, commands, ...slices } = record;
    const moved = readMoved(this.#device.settings(), slices);
    if (moved === undefined || moved.identity.deviceId !== this.ctx.id.name) return 'unreadable';
    const state = { ...moved, newHistory: history, commands: { ...moved.commands, loaded: commands } };
    this.#device.decide({ kind: 'record_imported', state, projectionVersion, membersVersion });
    return 'taken';
  }

  /** Whether the device is there; then it writes its projection and members again if D1 has others. */
  compareRecord(projectionVersion: number, membersVersion: number): 'present' | 'unused' | 'deleted' {
    if (typeof this.#device.present === 'string') return this.#device.present;
    this.#device.decide({ kind: 'record_compared', projectionVersion, membersVersion });
    return 'present';
  }

  /** Nobody claimed the device, it was never online, and none of its passwords was ever used, at the relay either. */
  isUnused(): boolean {
    const { present } = this.#device;
    if (typeof present === 'string') return true;
    const { identity, presence, credentials } = present;
    const isUsed = credentials.passwords.some(({ firstUsedAtMs }) => firstUsedAtMs !== null);
    return identity.claimedAtMs === null && presence.connection.lastOnlineAtMs === null && !isUsed;
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    if (this.#device.present === 'deleted') await this.ctx.storage.deleteAll();
    else {
      this.#device.checkDirect();
      this.#device.decide({ kind: 'alarm_fired', scheduledAtMs: info?.scheduledTime ?? Date.now() });
    }
  }

  #viewDays<T>(actor: Actor, view: (state: DeviceState, zone: string) => Outcome<T>): Outcome<T> {
    const zoneOf = (state: DeviceState) => zoneOfOwner(state, (readers) => this.#fleets.webhooksOf(readers));
    const viewed = this.#device.ask(actor, 'readReports', (state) => view(state, zoneOf(state)));
    return viewed.ok ? viewed.value : viewed;
  }

  /** Guest links end with the API key that made them. Links of a person read nothing in D1. */
  async #endLinksOfKeys(linkId?: string): Promise<void> {
    const { present } = this.#device;
    const keys = typeof present === 'string' ? [] : keysOfLinks(present, linkId);
    await this.#effects.checkGivers(keys);
  }
}
