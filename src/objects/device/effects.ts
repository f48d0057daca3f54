// Runs the effects of a device's decisions, after they are written. Outcomes go back to the device as events. A failure
// is logged and never reaches the caller whose event caused it.
import { readConfig } from '../../config.ts';
import { inBackground, waitable } from '../calls/background.ts';
import { putOutboxEntry } from '../../db/devices/broker-outbox.ts';
import { openDatabase } from '../../db/client.ts';
import { findApiKey, findApiKeys } from '../../db/accounts/api-keys.ts';
import { findUser } from '../../db/accounts/users.ts';
import { writeMembers } from '../../db/devices/members.ts';
import { findRecordOf, writeProjections } from '../../db/devices/devices.ts';
import { actorOf, inPerson } from '../../domain/access.ts';
import type { Effect, EventOf } from '../../domain/device/core/events.ts';
import type { PublishFailure, PublishOutcome } from '../../domain/publish-outcome.ts';
import { eventsPerTake, type EventGap, type OutgoingEvent, type TakeAnswer } from '../../domain/webhooks/webhooks.ts';
import { describeError, log } from '../../log.ts';
import type { DirectEndReason } from '../../domain/direct/answer-codes.ts';
import type { DirectDelivery } from './mqtt/exchange.ts';
import type { DeviceFleets } from './fleets.ts';
import type { RelayPushes } from './relay-pushes.ts';
import type { DeviceStorage } from './storage.ts';
import {
  callDevice,
  callHomeNamed,
  callInbox,
  callProjectionWriter,
  callRelay,
  callWebhook,
  hasAnswer,
  OrderedBrokerLink,
  resultOr,
} from '../calls/stubs.ts';
import { startScene } from '../calls/start-scene.ts';
import { within } from '../calls/within.ts';

/** Before a write for which nobody waits. */
const restMs = 1_000;
/** An endpoint's object answers sooner, also for a receiver that is slow. */
const takeWithinMs = 15_000;
const inboxWithinMs = 10_000;
const witnessWithinMs = 3_000;
/** The endpoint's object did not answer. */
const takeAgainAfterMs = 30_000;

type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { kind: Kind }>;
/** What comes back: events whose result nobody needs. */
type Report = EventOf<
  | 'publication_ended'
  | 'announcement_ended'
  | 'projection_ended'
  | 'record_checked'
  | 'members_written'
  | 'subscriptions_ended'
  | 'giver_checked'
  | 'webhooks_changed'
  | 'events_taken'
  | 'inbox_told'
  | 'witness_read'
  | 'witness_asked'
  | 'watcher_ended'
>;

type Device = {
  decide: (event: Report) => unknown;
  readers: () => readonly number[];
  storage: Pick<DeviceStorage, 'listEventsAfter'>;
};

type Sockets = {
  publish: (topic: string, payload: string, commandId: string | null) => DirectDelivery;
  end: (reason: DirectEndReason) => void;
};

export class DeviceEffects {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #device: Device;
  readonly #sockets: Sockets;
  readonly #pushes: RelayPushes;
  readonly #fleets: DeviceFleets;
  readonly #link: OrderedBrokerLink;
  readonly #publications = new Map<string, Promise<'sent' | PublishFailure>>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #inbox: Promise<void> = Promise.resolve();
  /** What users are being told before their subscriptions end. */
  #told: Promise<void> = Promise.resolve();

  constructor(
    ctx: DurableObjectState,
    env: Env,
    device: Device,
    sockets: Sockets,
    pushes: RelayPushes,
    fleets: DeviceFleets,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#device = device;
    this.#sockets = sockets;
    this.#pushes = pushes;
    this.#fleets = fleets;
    this.#link = new OrderedBrokerLink(env);
  }

  /** @returns when D1 and the relay shards have had their chance to take what a caller waits for */
  async run(effects: readonly Effect[]): Promise<void> {
    await Promise.all(effects.flatMap((effect) => this.#run(effect) ?? []));
  }

  /** How handing the command to the broker ended; `unreachable` if this object does not know of it any more. */
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
    await within(waitMs, promise);
    waiting.delete(lookAgain);
    if (waiting.size === 0) this.#waiting.delete(commandId);
  }

  #run(effect: Effect): Promise<void> | undefined {
    switch (effect.kind) {
      case 'push': {
        const { topic, payload, subscriptions, generations } = effect;
        const readers = this.#device.readers();
        const run = { deviceId: this.#deviceId, topic, payloads: [payload], generations, readers };
        this.#pushes.add([{ run, subscriptions }]);
        return;
      }
      case 'tell_readers': {
        const { topic, payload, subscriptions, generations, readers } = effect;
        const run = { deviceId: this.#deviceId, topic, payloads: [payload], generations, readers };
        this.#told = waitable(
          this.#ctx,
          'tell readers',
          this.#pushes.tell({ run: { ...run, isForUsers: true }, subscriptions }),
        );
        return this.#told;
      }
      case 'publish_command': {
        const publication = this.#publishCommand(effect);
        this.#publications.set(effect.commandId, publication);
        this.#inBackground('publish command', publication);
        return;
      }
      case 'publish_announcement':
        this.#inBackground('publish announcement', this.#publishAnnouncement(effect));
        return;
      case 'end_direct_session':
        this.#sockets.end(effect.reason);
        return;
      case 'write_projection': {
        const written = waitable(this.#ctx, 'write projection', this.#writeProjection(effect));
        return effect.isUrgent ? written : undefined;
      }
      case 'check_record':
        this.#inBackground('check record', this.#checkRecord(effect.productKey));
        return;
      case 'delete_at_broker':
        log('error', 'device ended: the database has no record of it', this.#about());
        this.#inBackground('delete at broker', this.#deleteAtBroker(effect.productKey));
        return;
      case 'end_relay_sessions':
        return waitable(this.#ctx, 'end relay sessions', this.#endRelaySessions(effect));
      case 'write_members':
        return waitable(this.#ctx, 'write members', this.#writeMembers(effect));
      case 'end_subscriptions':
        return waitable(this.#ctx, 'end subscriptions', this.#endSubscriptions(effect));
      case 'check_giver':
        this.#inBackground('check giver', this.checkGivers([effect]));
        return;
      case 'ask_witness':
        this.#inBackground('ask witness', this.askWitness(effect));
        return;
      case 'tell_watcher':
        this.#inBackground('tell watcher', this.#tellWatcher(effect));
        return;
      case 'tell_homes':
        this.#inBackground('tell homes', this.#tellHomes());
        return;
      case 'learn_webhooks':
        this.#inBackground('learn webhooks', this.#learnWebhooks(effect.readers));
        return;
      case 'deliver_events':
        this.#inBackground('deliver events', this.#deliverEvents(effect));
        return;
      case 'tell_inbox': {
        // In their order: a notice must not come after it was taken back.
        this.#inbox = waitable(this.#ctx, 'tell inbox', this.#tellInbox(effect, this.#inbox));
        return;
      }
      case 'notify_waiting':
        for (const lookAgain of this.#waiting.get(effect.commandId) ?? []) lookAgain();
        return;
      case 'log_failed_message': {
        const { spoolId, seq, error } = effect;
        log('error', 'message not handled', { ...this.#about(), spoolId, seq, ...describeError(error) });
        return;
      }
    }
  }

  async #publishCommand(effect: EffectOf<'publish_command'>): Promise<'sent' | PublishFailure> {
    const { commandId, topic, payload, expiresAtMs, messageExpirySeconds, scene } = effect;
    const outcome =
      (scene && (await this.#startScene(commandId, scene))) ??
      outcomeOf(this.#sockets.publish(topic, payload, commandId), commandId) ??
      (await this.#publish({ topic, payload, expiresAtMs, messageExpirySeconds }));
    // Not in the midst of the decision whose effect this is.
    await Promise.resolve();
    this.#publications.delete(commandId);
    if (!outcome.ok) log('warn', 'command not published', { ...this.#about(), commandId, reason: outcome.reason });
    this.#device.decide({ kind: 'publication_ended', commandId, outcome });
    return outcome.ok ? 'sent' : outcome.reason;
  }

  /** The run has the id of the command: started again, it is the same. */
  async #startScene(
    commandId: string,
    { sceneId, userId, keyId }: NonNullable<EffectOf<'publish_command'>['scene']>,
  ): Promise<PublishOutcome> {
    const start = async () => {
      const key = keyId === null ? null : await findApiKey(this.#database, keyId);
      const actor = key === null ? inPerson(userId) : key && actorOf(key);
      return actor && (await startScene(this.#env, this.#database, actor, sceneId, commandId));
    };
    const started = await this.#orFailed('scene not started', start());
    if (started === 'failed') return { ok: false, reason: 'unreachable' };
    return { ok: true, id: commandId, publishedAtMs: Date.now(), hasSubscribers: started?.ok === true };
  }

  async #publishAnnouncement(effect: EffectOf<'publish_announcement'>): Promise<void> {
    const { topic, payload, time, expiresAtMs, isDirect } = effect;
    this.#sockets.publish(topic, payload, null);
    await Promise.resolve();
    if (isDirect) {
      this.#device.decide({ kind: 'announcement_ended', time, isPublished: true });
      return;
    }
    const outcome = await this.#publish({ topic, payload, expiresAtMs });
    if (!outcome.ok) log('warn', 'announcement not published', { ...this.#about(), reason: outcome.reason });
    this.#device.decide({ kind: 'announcement_ended', time, isPublished: outcome.ok });
  }

  async #publish(request: Parameters<OrderedBrokerLink['publish']>[0]): Promise<PublishOutcome> {
    if (readConfig(this.#env).hasBroker) {
      return resultOr({ ok: false, reason: 'unreachable' } as const, this.#link.publish(request));
    }
    // As a broker answers for a device that is away.
    return { ok: true, id: '', publishedAtMs: Date.now(), hasSubscribers: false };
  }

  /** An urgent projection, for which the owner waits, is not sent to the writer: it might wait behind a whole fleet. */
  async #writeProjection({ projection, isUrgent, mayBeLost }: EffectOf<'write_projection'>): Promise<void> {
    const deviceId = this.#deviceId;
    // What users wait for goes first.
    if (mayBeLost) await scheduler.wait(restMs);
    const written = isUrgent
      ? writeProjections(this.#database, [{ deviceId, projection }]).then(() => 'written' as const)
      : callProjectionWriter(this.#env, 'projections', 'once').write(deviceId, projection);
    const outcome = await this.#orFailed('projection not written', written);
    if (mayBeLost && outcome === 'written') return;
    this.#device.decide({ kind: 'projection_ended', version: projection.version, outcome });
  }

  async #checkRecord(productKey: string): Promise<void> {
    const { hasRecord, hasProduct } = await findRecordOf(this.#database, this.#deviceId, productKey);
    if (!hasRecord) {
      log(hasProduct ? 'error' : 'warn', 'the database has no record of a device', { ...this.#about(), hasProduct });
    }
    if (hasRecord || hasProduct) this.#device.decide({ kind: 'record_checked', isThere: hasRecord });
  }

  /** Like the deletion by an owner; services/broker/provisioning.ts delivers it. */
  async #deleteAtBroker(productKey: string): Promise<void> {
    if (readConfig(this.#env).broker.provisioning === 'none') return;
    const nowMs = Date.now();
    await putOutboxEntry(this.#database, {
      deviceId: this.#deviceId,
      productKey,
      operation: 'delete',
      sealedPassword: null,
      endsSessions: false,
      requestedAt: nowMs,
      nextAttemptAt: nowMs,
    });
  }

  async #writeMembers({ version, members }: EffectOf<'write_members'>): Promise<void> {
    const written = writeMembers(this.#database, this.#deviceId, version, members);
    const isWritten = (await this.#orFailed('members not written', written)) !== 'failed';
    this.#device.decide({ kind: 'members_written', version, isWritten });
  }

  /** @throws if D1 does not answer: then nothing is decided */
  async checkGivers(givers: readonly { userId: number; keyId: string | null }[]): Promise<void> {
    const keyIds = givers.flatMap(({ keyId }) => keyId ?? []);
    const keys = keyIds.length === 0 ? [] : await findApiKeys(this.#database, keyIds);
    for (const { userId, keyId } of givers) {
      const isUserValid = async () => (await findUser(this.#database, userId))?.disabledAt === null;
      const isValid = keyId === null ? await isUserValid() : keys.includes(keyId);
      this.#device.decide({ kind: 'giver_checked', userId, keyId, isValid });
    }
  }

  /** Returns when the reading has been taken, or the other device did not answer. */
  async askWitness({ deviceId, untilMs, commandId }: Omit<EffectOf<'ask_witness'>, 'kind'>): Promise<void> {
    const other = callDevice(this.#env, deviceId, 'idempotent');
    const asked = other.decide({ kind: 'reading_asked', deviceId: this.#deviceId, untilMs });
    const answer = await resultOr(undefined, within(witnessWithinMs, asked));
    if (answer?.ok === true && answer.value !== null)
      this.#device.decide({ kind: 'witness_read', deviceId, reading: answer.value });
    if (commandId === null) return;
    const problem = answer === undefined ? 'unreachable' : answer.ok ? null : 'forbidden';
    if (problem !== 'unreachable') this.#device.decide({ kind: 'witness_asked', commandId, problem });
  }

  async #tellWatcher({ deviceId, reading }: EffectOf<'tell_watcher'>): Promise<void> {
    const watcher = callDevice(this.#env, deviceId, 'idempotent');
    const told = watcher.decide({ kind: 'witness_read', deviceId: this.#deviceId, reading });
    const answer = await resultOr(undefined, told);
    if (answer?.ok === false) this.#device.decide({ kind: 'watcher_ended', deviceId });
  }

  async #endSubscriptions({ userId, shard }: EffectOf<'end_subscriptions'>): Promise<void> {
    await this.#told;
    const ended = callRelay(this.#env, shard, 'idempotent').endSubscriptions(this.#deviceId, userId);
    const isDone = (await resultOr('failed', ended)) !== 'failed';
    this.#device.decide({ kind: 'subscriptions_ended', userId, shard, isDone });
  }

  async #tellHomes(): Promise<void> {
    const homes = this.#fleets.homesOf(this.#device.readers());
    // Not in the midst of the decision whose effect this is.
    await Promise.resolve();
    const told = homes.map((home) => callHomeNamed(this.#env, home, 'once').note(this.#deviceId));
    await Promise.allSettled(told);
  }

  async #learnWebhooks(readers: readonly number[]): Promise<void> {
    await this.#fleets.learnWebhooks(readers);
    await Promise.resolve();
    this.#device.decide({ kind: 'webhooks_changed' });
  }

  /** Events that the endpoint does not want are passed over; a gap is told as they are. */
  async #deliverEvents(effect: EffectOf<'deliver_events'>): Promise<void> {
    const { webhookId, userId, types, after, last, failures } = effect;
    const { events, gap } = this.#device.storage.listEventsAfter(after, last, eventsPerTake);
    const wanted = events.filter(({ type }) => types.includes(type));
    const upTo = events.at(-1)?.number ?? last;
    await Promise.resolve();
    const answer = wanted.length === 0 && gap === null ? { upTo } : await this.#take(webhookId, wanted, gap, failures);
    const taken = answer === 'gone' ? undefined : answer.upTo;
    const tookAll = taken !== undefined && taken >= (wanted.at(-1)?.number ?? 0);
    if (answer === 'gone') this.#fleets.endLease(userId, true);
    this.#device.decide({ kind: 'events_taken', webhookId, after, answer: tookAll ? { upTo } : answer });
  }

  async #tellInbox({ userId, changes }: EffectOf<'tell_inbox'>, former: Promise<void>): Promise<void> {
    await former;
    const called = hasAnswer(callInbox(this.#env, userId, 'idempotent').change(changes));
    if ((await within(inboxWithinMs, called)) === true) this.#device.decide({ kind: 'inbox_told', userId, changes });
  }

  async #take(
    webhookId: string,
    events: readonly OutgoingEvent[],
    gap: EventGap | null,
    failures: number,
  ): Promise<TakeAnswer> {
    const called = callWebhook(this.#env, webhookId, 'idempotent').take(this.#deviceId, events, gap, failures);
    const answer = await resultOr(undefined, within(takeWithinMs, called));
    return answer ?? { laterAtMs: Date.now() + takeAgainAfterMs };
  }

  /** If a shard cannot be reached, its sockets are gone, or the device's next message ends them. */
  async #endRelaySessions({ cause, shards, generations }: EffectOf<'end_relay_sessions'>): Promise<void> {
    await this.#told;
    await Promise.allSettled(
      shards.map((shard) => callRelay(this.#env, shard, 'idempotent').revoke(this.#deviceId, cause, generations)),
    );
  }

  get #deviceId(): string {
    return this.#ctx.id.name ?? '';
  }

  get #database() {
    return openDatabase(this.#env.DB, 'first-primary');
  }

  /** The result of the work, or `failed`: then the failure is logged. */
  async #orFailed<T>(failure: string, work: Promise<T>): Promise<T | 'failed'> {
    try {
      return await work;
    } catch (error) {
      log('warn', failure, { ...this.#about(), ...describeError(error) });
      return 'failed';
    }
  }

  #inBackground(what: string, work: Promise<unknown>): void {
    inBackground(this.#ctx, what, work);
  }

  #about() {
    return { deviceId: this.#deviceId };
  }
}

function outcomeOf(delivery: DirectDelivery, id: string): PublishOutcome | undefined {
  if (delivery === undefined) return undefined;
  if (delivery === 'busy') return { ok: false, reason: 'device_busy' };
  return { ok: true, id, publishedAtMs: Date.now(), hasSubscribers: delivery === 'written' };
}
