// One device: everything that is true of it now, and the only writer of it. The object's name is the deviceId.
// This file is its RPC surface: each call changes what it has to without waiting in between, then settles. It never
// writes before it was provisioned, and never waits for D1.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { isEqualDigest } from '../crypto/secrets.ts';
import { refuse, type Outcome, type Refusal } from '../domain/refusal.ts';
import { addCredential, validCredentials } from '../domain/messaging-credentials.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import type { PresenceEvent } from '../domain/presence.ts';
import { matchesFilter, topicOf, type DeviceIdentity } from '../domain/topics.ts';
import { topicActions, type TopicAction } from '../protocol/mqtt.ts';
import { DeviceAlarm } from './device-alarm.ts';
import { DeviceCommands, type CommandReceipt, type CommandRequest, type CommandView } from './device-commands.ts';
import {
  DeviceInbox,
  unpackMessages,
  type MessageColumns,
  type MessageResult,
  type SessionMessage,
} from './device-inbox.ts';
import { DevicePresence } from './device-presence.ts';
import { DeviceState } from './device-state.ts';
import type { DeviceRecord, LiveState } from './device-storage.ts';
import {
  pageOf,
  viewEvents,
  viewProperties,
  viewStatus,
  type EventView,
  type PropertiesView,
  type StatusView,
} from './device-views.ts';
import { pushToRelays, type RelayRun } from './relay-push.ts';
import { callRelay } from './stubs.ts';

export type Provisioning = Pick<
  DeviceRecord,
  'productKey' | 'ownerId' | 'name' | 'controlMode' | 'offlineGraceSeconds' | 'productChangedAtMs' | 'secretDigest'
> & { passwordDigest: string };

/** `others` are the results that are not `accepted`, with the positions of their messages. */
export type Ingested = { others: (MessageResult & { position: number })[]; listeners: LiveState['listeners'] };

export class DeviceSession extends DurableObject<Env> {
  readonly #state: DeviceState;
  readonly #presence: DevicePresence;
  readonly #alarm: DeviceAlarm;
  readonly #inbox: DeviceInbox;
  readonly #commands: DeviceCommands;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#state = new DeviceState(ctx);
    this.#presence = new DevicePresence(env, this.#state);
    this.#alarm = new DeviceAlarm(ctx.storage, env, this.#state);
    this.#commands = new DeviceCommands(ctx.storage, env, this.#state, () => this.#settle());
    this.#inbox = new DeviceInbox(this.#state, this.#presence, this.#commands);
  }

  /**
   * Makes the device, or gives one that exists a further messaging password (decisions, Activation). One that was
   * deleted stays deleted: `device_not_found`.
   */
  provision({ passwordDigest, ...facts }: Provisioning): Outcome<{ isNew: boolean }> {
    if (this.#state.isDeleted) return refuse({ kind: 'not_found', what: 'device' });
    const nowMs = Date.now();
    if (!this.#state.isProvisioned) {
      const deviceId = this.ctx.id.name ?? '';
      const credentials = addCredential([], passwordDigest, nowMs);
      this.#state.create({ ...facts, deviceId, isDisabled: false, credentials, revocations: 0 });
      return { ok: true, value: { isNew: true } };
    }
    const { isDisabled, credentials } = this.#state.record;
    if (isDisabled) return refuse({ kind: 'device_disabled', deviceId: this.#state.record.deviceId });
    const { secretDigest } = facts;
    this.#state.changeRecord({ secretDigest, credentials: addCredential(credentials, passwordDigest, nowMs) });
    return { ok: true, value: { isNew: false } };
  }

  /** Checks messaging credentials for a login at the broker, or at a relay shard, which listens from then on. */
  async authenticate(given: {
    productKey: string;
    passwordDigest: string;
    /** False where the client identifier is not the documented one. */
    isClientIdRight?: boolean;
    /** Network address of the device, where the broker tells it. */
    peer?: string | undefined;
    relayShard?: string;
  }): Promise<Outcome<DeviceIdentity & { revocations: number }>> {
    if (!(await this.#isDeviceOf(given.productKey))) return refuse({ kind: 'not_found', what: 'device' });
    if (given.isClientIdRight === false) return refuse({ kind: 'wrong_client_id' });
    const { record } = this.#state;
    const nowMs = Date.now();
    const credential = validCredentials(record.credentials, nowMs).find(({ digest }) =>
      isEqualDigest(digest, given.passwordDigest),
    );
    if (credential === undefined)
      return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'wrong' });
    if (record.isDisabled) return refuse({ kind: 'device_disabled', deviceId: this.#state.record.deviceId });
    if (credential.firstUsedAtMs === null) {
      const used = { ...credential, firstUsedAtMs: nowMs };
      this.#state.changeRecord({ credentials: record.credentials.map((one) => (one === credential ? used : one)) });
    }
    if (given.relayShard === undefined) {
      if (this.#state.live.isAwaitingLogin) this.#state.change({ isAwaitingLogin: false, acceptedFromMs: nowMs });
      if (this.#presence.apply({ kind: 'authenticated' })) this.#commands.onReturn();
    } else {
      // What the device's own socket subscribes to later is not told here.
      this.#addListener(given.relayShard, false);
    }
    this.#settle();
    const { productKey, deviceId, revocations } = record;
    return { ok: true, value: { productKey, deviceId, revocations } };
  }

  /** A broker says that a session of the device began or ended. */
  async reportConnection(event: Extract<PresenceEvent, { kind: 'connected' | 'disconnected' }>): Promise<void> {
    if (!(await this.#isProvisioned())) return;
    // What is left of a revoked session may end, but nothing of it may begin.
    if (event.kind === 'connected' && this.#state.live.isAwaitingLogin) return;
    if (this.#presence.apply(event)) this.#commands.onReturn();
    this.#settle();
  }

  /** Takes the messages of one batch, in order; answers each, and who is to be told of them. */
  async ingest(productKey: string, spoolId: string, columns: MessageColumns): Promise<Ingested> {
    const refusal = !(await this.#isDeviceOf(productKey))
      ? 'device_not_found'
      : this.#state.record.isDisabled
        ? 'device_disabled'
        : this.#state.live.isAwaitingLogin
          ? revokedResult.reason
          : undefined;
    const others: Ingested['others'] = [];
    const acceptedFromMs = this.#state.isProvisioned ? this.#state.live.acceptedFromMs : 0;
    for (const [position, message] of unpackMessages(columns).entries()) {
      const result =
        refusal !== undefined
          ? this.#refuseMessage(message, refusal)
          : message.receivedAtMs < acceptedFromMs
            ? revokedResult
            : this.#inbox.take(spoolId, message);
      if (result.result !== 'accepted') others.push({ ...result, position });
    }
    if (refusal !== undefined) return { others, listeners: [] };
    this.#settle();
    return { others, listeners: this.#state.live.listeners };
  }

  /** Takes a message of a relay session that signed in as the device. */
  async publish(
    { productKey, revocations }: { productKey: string; revocations: number },
    action: TopicAction,
    payload: string,
  ): Promise<Outcome<MessageResult>> {
    if (!(await this.#isDeviceOf(productKey))) return refuse({ kind: 'not_found', what: 'device' });
    const { record, live } = this.#state;
    if (record.isDisabled) return refuse({ kind: 'device_disabled', deviceId: this.#state.record.deviceId });
    if (record.revocations !== revocations)
      return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'revoked' });
    const value = this.#inbox.takeFromRelay(action, payload);
    if (value.result === 'accepted') {
      const run: RelayRun = { deviceId: record.deviceId, topic: topicOf(record, action), payloads: [payload] };
      this.#state.afterFlush(() => pushToRelays(this.env, [{ run, listeners: live.listeners }]));
    }
    this.#settle();
    return { ok: true, value };
  }

  async status(userId: number): Promise<Outcome<StatusView>> {
    const refusal = await this.#refuse(userId);
    return refusal ?? { ok: true, value: viewStatus(this.#state, this.#presence.rules) };
  }

  async events(userId: number, page: PageRequest): Promise<Outcome<Page<EventView>>> {
    return (await this.#refuse(userId)) ?? { ok: true, value: viewEvents(this.#state, page) };
  }

  async properties(userId: number): Promise<Outcome<PropertiesView>> {
    return (await this.#refuse(userId)) ?? { ok: true, value: viewProperties(this.#state) };
  }

  async command(userId: number, request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    return (await this.#refuse(userId)) ?? this.#commands.send(request);
  }

  async listCommands(userId: number, page: PageRequest): Promise<Outcome<Page<CommandView>>> {
    return (await this.#refuse(userId)) ?? { ok: true, value: pageOf(this.#commands.list(), page) };
  }

  async readCommand(userId: number, commandId: string): Promise<Outcome<CommandView>> {
    const refusal = await this.#refuse(userId);
    if (refusal !== undefined) return refusal;
    const command = this.#commands.find(commandId);
    return command === undefined ? refuse({ kind: 'not_found', what: 'command' }) : { ok: true, value: command };
  }

  async cancelCommand(userId: number, commandId: string): Promise<Outcome<CommandView>> {
    const outcome = (await this.#refuse(userId)) ?? this.#commands.cancel(commandId);
    if (outcome.ok) this.#settle();
    return outcome;
  }

  /** Signs a relay shard up for a socket of the device's owner that subscribes to `filter`. */
  async watch(userId: number, productKey: string, relayShard: string, filter: string): Promise<Outcome<null>> {
    const refusal = await this.#refuse(userId);
    if (refusal !== undefined) return refusal;
    if (this.#state.record.productKey !== productKey) return refuse({ kind: 'not_found', what: 'device' });
    this.#addListener(relayShard, !matchesFilter(filter, topicOf(this.#state.record, topicActions.propertySet)));
    this.#settle();
    return done;
  }

  /** A shard found nobody listening; it stays if it signed up again since. */
  async unwatch(relayShard: string, signUp: number): Promise<void> {
    if (!(await this.#isProvisioned())) return;
    const { listeners } = this.#state.live;
    const left = listeners.filter((one) => one.shard !== relayShard || one.signUp !== signUp);
    if (left.length < listeners.length) this.#state.change({ listeners: left });
    this.#settle();
  }

  /** Changes what its owner may; D1 has it when this answers, unless D1 is away and has to catch up. */
  async administer(
    userId: number,
    change: { name?: string; isDisabled?: boolean },
  ): Promise<Outcome<Pick<DeviceRecord, 'name' | 'isDisabled'>>> {
    const refusal = await this.#refuse(userId);
    if (refusal !== undefined) return refusal;
    this.#state.changeRecord(change);
    this.#presence.markCopyBehind();
    // Subscribers of a disabled device are told that it is offline, and the truth when it is enabled.
    this.#presence.apply({ kind: 'due' });
    this.#settle();
    if (change.isDisabled === true) await this.#closeRelays('disabled');
    await this.#presence.copied();
    const { name, isDisabled } = this.#state.record;
    return { ok: true, value: { name, isDisabled } };
  }

  /** Ends every messaging password but the new one, and with them the device's sessions. */
  async replaceCredentials(userId: number, passwordDigest: string): Promise<Outcome<DeviceIdentity>> {
    const refusal = await this.#refuse(userId);
    if (refusal !== undefined) return refusal;
    const { productKey, deviceId, revocations } = this.#state.record;
    const nowMs = Date.now();
    const credentials = [{ digest: passwordDigest, issuedAtMs: nowMs, firstUsedAtMs: null }];
    this.#state.changeRecord({ credentials, revocations: revocations + 1 });
    // A broker that knows the credentials itself does not ask at login: there, what comes from now on is believed.
    const isAwaitingLogin = readConfig(this.env).broker.provisioning === 'none';
    this.#state.change({ isAwaitingLogin, acceptedFromMs: nowMs });
    this.#presence.apply({ kind: 'revoked' });
    this.#settle();
    await this.#closeRelays('credentials rotated');
    return { ok: true, value: { productKey, deviceId } };
  }

  /** What changed in the product that the hot paths need; an older change than the known one comes too late. */
  changeProduct(change: Pick<DeviceRecord, 'controlMode' | 'offlineGraceSeconds' | 'productChangedAtMs'>): void {
    if (!this.#state.isProvisioned) return;
    if (change.productChangedAtMs >= this.#state.record.productChangedAtMs) this.#state.changeRecord(change);
  }

  /** Ends the device: credentials, session, subscribers. For a while it remembers that there was one. */
  async wipe(): Promise<void> {
    if (!this.#state.isProvisioned) return;
    const closing = this.#closeRelays('deleted');
    this.#state.bury();
    void this.ctx.storage.setAlarm(Date.now() + rememberDeletionMs);
    await closing;
  }

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    if (this.#state.isDeleted) await this.ctx.storage.deleteAll();
    if (!this.#state.isProvisioned) return;
    this.#alarm.start(info?.scheduledTime ?? Date.now(), this.#presence.rules);
    this.#presence.onAlarm();
    this.#commands.publishDue();
    this.#settle();
  }

  /** Where a shard cannot be reached its sockets are gone, or they will be refused at their next word. */
  async #closeRelays(cause: 'deleted' | 'disabled' | 'credentials rotated'): Promise<void> {
    const { deviceId } = this.#state.record;
    const { listeners } = this.#state.live;
    await Promise.allSettled(
      listeners.map(({ shard }) =>
        callRelay(this.env, shard, 'revoke', 'repeatable', (relay) => relay.revoke(deviceId, cause)),
      ),
    );
  }

  /** Sets the alarm for what the call has left to do, and writes what it changed: together or not at all. */
  #settle(): void {
    if (!this.#state.isProvisioned) return;
    const planned = [this.#presence.dueAtMs(), this.#commands.dueAtMs()].filter((time) => time !== null);
    this.#alarm.arm(planned.length === 0 ? null : Math.min(...planned), this.#presence.rules);
    this.#state.flush();
  }

  /** Also what has to be awaited before anything is read or changed. */
  async #isProvisioned(): Promise<boolean> {
    if (this.#state.isProvisioned) await this.#alarm.recall(this.#presence.rules);
    return this.#state.isProvisioned;
  }

  async #isDeviceOf(productKey: string): Promise<boolean> {
    return (await this.#isProvisioned()) && this.#state.record.productKey === productKey;
  }

  /** The service's own last word on a device that was disabled or re-keyed comes back like any other message. */
  #refuseMessage({ action, payload }: SessionMessage, reason: string): MessageResult {
    const isEcho = this.#state.isProvisioned && action === topicActions.status && this.#presence.isEcho(payload);
    return isEcho ? { result: 'ignored' } : { result: 'rejected', reason };
  }

  async #refuse(userId: number): Promise<{ ok: false; refusal: Refusal } | undefined> {
    if (!(await this.#isProvisioned())) return refuse({ kind: 'not_found', what: 'device' });
    return this.#state.record.ownerId === userId
      ? undefined
      : refuse({ kind: 'not_owner', of: 'device', id: this.#state.record.deviceId });
  }

  #addListener(relayShard: string, ignoresCommands: boolean): void {
    const { listeners } = this.#state.live;
    // Grows even when the list was empty in between, so that a late `unwatch` never meets its own number again.
    const signUp = Math.max(Date.now(), ...listeners.map((one) => one.signUp + 1));
    const former = listeners.find(({ shard }) => shard === relayShard);
    const hasIgnored = former === undefined || former.ignoresCommands === true;
    const listener = { shard: relayShard, signUp, ignoresCommands: ignoresCommands && hasIgnored };
    this.#state.change({ listeners: [...listeners.filter((one) => one !== former), listener] });
  }
}

const revokedResult = { result: 'rejected', reason: 'session_revoked' } as const;
const done: Outcome<null> = { ok: true, value: null };
/** An activation that read the record before it was deleted has long ended by then. */
const rememberDeletionMs = 3_600_000;
