// Runs the effects of a device's decisions, after they are written. Outcomes go back to the device as events. A failure
// is logged and never reaches the caller whose event caused it.
import { readConfig } from '../../config.ts';
import { putOutboxEntry } from '../../db/devices/broker-outbox.ts';
import { openDatabase } from '../../db/client.ts';
import { writeMembers } from '../../db/devices/members.ts';
import { findRecordOf, writeProjections } from '../../db/devices/devices.ts';
import type { Effect, Projection } from '../../domain/device/core/effects.ts';
import type { DeviceEvent } from '../../domain/device/core/events.ts';
import type { ProjectionOutcome } from '../../domain/device/presence/projection.ts';
import type { PublishFailure, PublishOutcome } from '../../domain/publish-outcome.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import type { EdgeEndReason } from '../../protocol/vocabulary.ts';
import type { DeviceFleets } from './fleets.ts';
import type { EdgeDelivery } from './mqtt/exchange.ts';
import { RelayPushes } from './relay-pushes.ts';
import type { PublishRequest } from '../broker-link/pending-publishes.ts';
import { callProjectionWriter, callRelay, OrderedBrokerLink } from '../calls/stubs.ts';

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { kind: Kind }>;
/** What comes back: events whose result nobody needs. */
type Report = Extract<
  DeviceEvent,
  {
    kind:
      | 'publication_ended'
      | 'announcement_ended'
      | 'projection_ended'
      | 'record_checked'
      | 'members_written'
      | 'subscriptions_ended';
  }
>;

/** The device's own sockets. */
type Edge = {
  publish: (topic: string, payload: string, commandId: string | null) => EdgeDelivery;
  end: (reason: EdgeEndReason) => void;
};

export class DeviceEffects {
  readonly pushes: RelayPushes;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #report: (event: Report) => void;
  readonly #readers: () => readonly number[];
  readonly #link: OrderedBrokerLink;
  readonly #edge: () => Edge;
  readonly #publications = new Map<string, Promise<'sent' | PublishFailure>>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #projection: Promise<void> = Promise.resolve();
  #relaySessions: Promise<void> = Promise.resolve();
  #sharing: Promise<void>[] = [];

  constructor(
    ctx: DurableObjectState,
    env: Env,
    report: (event: Report) => void,
    edge: () => Edge,
    readers: () => readonly number[],
    fleets: DeviceFleets,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#report = report;
    this.#readers = readers;
    this.#link = new OrderedBrokerLink(env);
    this.#edge = edge;
    const { edgeGatherMs } = readConfig(env).limits;
    this.pushes = new RelayPushes(env, fleets, edgeGatherMs, (work) => this.inBackground('push', work));
  }

  run(effects: readonly Effect[]): void {
    for (const effect of effects) this.#run(effect);
  }

  /** How handing the command to the broker ended; `unreachable` where this object does not know of it any more. */
  async publicationOf(commandId: string): Promise<'sent' | PublishFailure> {
    return (await this.#publications.get(commandId)) ?? 'unreachable';
  }

  /** Returns when the command ended or the time is over. The request that waits keeps the object awake meanwhile. */
  async waitForReply(commandId: string, waitMs: number, isWaiting: () => boolean): Promise<void> {
    if (!isWaiting()) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const lookAgain = () => {
      if (!isWaiting()) resolve(undefined);
    };
    const waiting = this.#waiting.get(commandId) ?? new Set();
    this.#waiting.set(commandId, waiting.add(lookAgain));
    const timer = setTimeout(() => resolve(undefined), waitMs);
    await promise;
    clearTimeout(timer);
    waiting.delete(lookAgain);
    if (waiting.size === 0) this.#waiting.delete(commandId);
  }

  /** D1 has had its chance to take the projection, and the relay sessions that were to end have ended. */
  async ended(): Promise<void> {
    await Promise.all([this.#projection, this.#relaySessions]);
  }

  /** D1 and the relay shards have had their chance to take what changed of the members. */
  async sharingEnded(): Promise<void> {
    await Promise.all(this.#sharing);
  }

  async relaySessionsEnded(): Promise<void> {
    await this.#relaySessions;
  }

  inBackground(what: string, work: Promise<unknown>): void {
    this.#ctx.waitUntil(
      work.catch((error: unknown) => {
        log('error', 'background work failed', { what, ...this.#about(), ...describeError(error) });
      }),
    );
  }

  #run(effect: Effect): void {
    switch (effect.kind) {
      case 'push': {
        const { topic, payload, subscriptions, generations } = effect;
        const run = {
          deviceId: this.#deviceId,
          topic,
          payloads: [payload],
          generations,
          readers: this.#readers(),
        };
        this.pushes.add([{ run, subscriptions }]);
        break;
      }
      case 'publish_command': {
        const publication = this.#publishCommand(effect);
        this.#publications.set(effect.commandId, publication);
        this.inBackground('publish command', publication);
        break;
      }
      case 'publish_announcement':
        this.inBackground('publish announcement', this.#publishAnnouncement(effect));
        break;
      case 'end_edge_session':
        this.#edge().end(effect.reason);
        break;
      case 'write_projection':
        this.#projection = this.#writeProjection(effect);
        this.inBackground('write projection', this.#projection);
        break;
      case 'check_record':
        this.inBackground('check record', this.#checkRecord(effect.productKey));
        break;
      case 'delete_at_broker':
        log('error', 'device ended: the database has no record of it', this.#about());
        this.inBackground('delete at broker', this.#deleteAtBroker(effect.productKey));
        break;
      case 'end_relay_sessions':
        this.#relaySessions = this.#endRelaySessions(effect);
        this.inBackground('end relay sessions', this.#relaySessions);
        break;
      case 'write_members':
        this.#inSharing('write members', this.#writeMembers(effect));
        break;
      case 'end_subscriptions':
        this.#inSharing('end subscriptions', this.#endSubscriptions(effect));
        break;
      case 'notify_waiting':
        for (const lookAgain of this.#waiting.get(effect.commandId) ?? []) lookAgain();
        break;
      case 'log_failed_message': {
        const { spoolId, seq, error } = effect;
        log('error', 'message not handled', { ...this.#about(), spoolId, seq, ...describeError(error) });
        break;
      }
    }
  }

  async #publishCommand(effect: EffectOf<'publish_command'>): Promise<'sent' | PublishFailure> {
    const { commandId, topic, payload, expiresAtMs, messageExpirySeconds } = effect;
    const outcome =
      outcomeOf(this.#edge().publish(topic, payload, commandId), commandId) ??
      (await this.#publish({ topic, payload, expiresAtMs, messageExpirySeconds }));
    // Not in the midst of the decision whose effect this is.
    await Promise.resolve();
    this.#publications.delete(commandId);
    if (!outcome.ok) log('warn', 'command not published', { ...this.#about(), commandId, reason: outcome.reason });
    this.#report({ kind: 'publication_ended', commandId, outcome });
    return outcome.ok ? 'sent' : outcome.reason;
  }

  async #publishAnnouncement(effect: EffectOf<'publish_announcement'>): Promise<void> {
    const { topic, payload, time, expiresAtMs, isAtEdge } = effect;
    this.#edge().publish(topic, payload, null);
    await Promise.resolve();
    if (isAtEdge) {
      this.#report({ kind: 'announcement_ended', time, isPublished: true });
      return;
    }
    const outcome = await this.#publish({ topic, payload, expiresAtMs });
    if (!outcome.ok) log('warn', 'announcement not published', { ...this.#about(), reason: outcome.reason });
    this.#report({ kind: 'announcement_ended', time, isPublished: outcome.ok });
  }

  async #publish(request: PublishRequest): Promise<PublishOutcome> {
    // As a broker answers for a device that is away.
    if (!readConfig(this.#env).hasBroker) {
      return { ok: true, id: '', publishedAtMs: Date.now(), hasSubscribers: false };
    }
    try {
      return await this.#link.publish(request);
    } catch (error) {
      // The call has logged it.
      if (error instanceof RefusedError) return { ok: false, reason: 'unreachable' };
      throw error;
    }
  }

  /** What D1 did not take is tried again by the alarm. */
  async #writeProjection({ projection, isUrgent }: EffectOf<'write_projection'>): Promise<void> {
    const outcome = await this.#handOver(projection, isUrgent);
    this.#report({ kind: 'projection_ended', version: projection.version, outcome });
  }

  /** What the owner waits for goes past the writer, where it might wait behind a whole fleet. */
  async #handOver(projection: Projection, isUrgent: boolean): Promise<ProjectionOutcome> {
    const deviceId = this.#deviceId;
    try {
      if (!isUrgent) return await callProjectionWriter(this.#env, (writer) => writer.write(deviceId, projection));
      await writeProjections(openDatabase(this.#env.DB, 'first-primary'), [{ deviceId, projection }]);
      return 'written';
    } catch (error) {
      log('warn', 'projection not written', { ...this.#about(), ...describeError(error) });
      return 'failed';
    }
  }

  /** Reports a definite answer of the primary alone; without one the alarm asks again. */
  async #checkRecord(productKey: string): Promise<void> {
    const database = openDatabase(this.#env.DB, 'first-primary');
    const { hasRecord, hasProduct } = await findRecordOf(database, this.#deviceId, productKey);
    if (!hasRecord) {
      log(hasProduct ? 'error' : 'warn', 'the database has no record of a device', { ...this.#about(), hasProduct });
    }
    if (hasRecord || hasProduct) this.#report({ kind: 'record_checked', isThere: hasRecord });
  }

  /** Like the deletion by an owner; services/broker/provisioning.ts delivers it. */
  async #deleteAtBroker(productKey: string): Promise<void> {
    if (readConfig(this.#env).broker.provisioning === 'none') return;
    const nowMs = Date.now();
    await putOutboxEntry(openDatabase(this.#env.DB, 'first-primary'), {
      deviceId: this.#deviceId,
      productKey,
      operation: 'delete',
      sealedPassword: null,
      endsSessions: false,
      requestedAt: nowMs,
      nextAttemptAt: nowMs,
    });
  }

  #inSharing(what: string, work: Promise<void>): void {
    const tracked = work.finally(() => (this.#sharing = this.#sharing.filter((one) => one !== tracked)));
    this.#sharing.push(tracked);
    this.inBackground(what, tracked);
  }

  async #writeMembers({ version, members }: EffectOf<'write_members'>): Promise<void> {
    let isWritten = true;
    try {
      await writeMembers(openDatabase(this.#env.DB, 'first-primary'), this.#deviceId, version, members);
    } catch (error) {
      isWritten = false;
      log('warn', 'members not written', { ...this.#about(), ...describeError(error) });
    }
    this.#report({ kind: 'members_written', version, isWritten });
  }

  async #endSubscriptions({ userId, shard }: EffectOf<'end_subscriptions'>): Promise<void> {
    let isDone = true;
    try {
      await callRelay(this.#env, shard, 'endSubscriptions', 'idempotent', (relay) =>
        relay.endSubscriptions(this.#deviceId, userId),
      );
    } catch (error) {
      // The call has logged it.
      if (!(error instanceof RefusedError)) throw error;
      isDone = false;
    }
    this.#report({ kind: 'subscriptions_ended', userId, shard, isDone });
  }

  /** Where a shard cannot be reached its sockets are gone, or the device's next message ends them. */
  async #endRelaySessions({ cause, shards, generations }: EffectOf<'end_relay_sessions'>): Promise<void> {
    await Promise.allSettled(
      shards.map((shard) =>
        callRelay(this.#env, shard, 'revoke', 'idempotent', (relay) =>
          relay.revoke(this.#deviceId, cause, generations),
        ),
      ),
    );
  }

  get #deviceId(): string {
    return this.#ctx.id.name ?? '';
  }

  #about() {
    return { deviceId: this.#deviceId };
  }
}

/** Undefined where the device has no session here. */
function outcomeOf(delivery: EdgeDelivery, id: string): PublishOutcome | undefined {
  if (delivery === undefined) return undefined;
  if (delivery === 'busy') return { ok: false, reason: 'device_busy' };
  return { ok: true, id, publishedAtMs: Date.now(), hasSubscribers: delivery === 'written' };
}
