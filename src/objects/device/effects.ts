// Runs the effects of a device's decisions, after they are written. Outcomes go back to the device as events. A failure
// is logged and never reaches the caller whose event caused it.
import { readConfig } from '../../config.ts';
import { orFailed, waitable } from '../calls/background.ts';
import { putOutboxEntry } from '../../db/devices/broker-outbox.ts';
import { createLinkToken } from '../../crypto/link-token.ts';
import { openDatabase } from '../../db/client.ts';
import { findApiKeys } from '../../db/accounts/api-keys.ts';
import { findUser } from '../../db/accounts/users.ts';
import { writeMembers } from '../../db/devices/members.ts';
import { findRecordOf, writeProjections } from '../../db/devices/devices.ts';
import { findImage } from '../../db/products/firmware.ts';
import type { Effect, EffectOf, Push } from '../../domain/device/core/events.ts';
import { eventsPerTake, type TakeAnswer } from '../../domain/webhooks/webhooks.ts';
import { RefusedError, unwrap, type Refusal } from '../../domain/refusal.ts';
import { topicOf } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { dataBytes, type Data } from '../../protocol/firmware.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import type { DeviceCommands } from './commands.ts';
import type { DeviceFleets } from './fleets.ts';
import type { DirectSockets } from './mqtt/sockets.ts';
import type { RelayPushes } from './relay-pushes.ts';
import type { StoredDevice } from './stored-device.ts';
import {
  callCampaign,
  callDevice,
  callHomeNamed,
  callInbox,
  callProjectionWriter,
  callRelay,
  callWebhook,
  hasAnswer,
  resultOr,
} from '../calls/stubs.ts';
import { within } from '../calls/within.ts';

/** Before a write for which nobody waits. */
const restMs = 1_000;
/** An endpoint's object answers sooner, also for a receiver that is slow. */
const takeWithinMs = 15_000;
const inboxWithinMs = 10_000;
const witnessWithinMs = 3_000;
/** The endpoint's object did not answer. */
const takeAgainAfterMs = 30_000;

/** What a caller waits for, as long as its own limits say. */
const awaited: readonly Effect['kind'][] = ['tell_readers', 'end_relay_sessions', 'write_members', 'end_subscriptions'];

type ImageProblem = Extract<Data, { error: string }>['error'];
const imageProblems: { [Kind in Refusal['kind']]?: ImageProblem } = {
  update_ended: 'gone',
  campaign_paused: 'paused',
  rate_limited: 'busy',
};

/** What carries out an effect beside this file. */
type Parts = {
  sockets: DirectSockets;
  commands: DeviceCommands;
  pushes: RelayPushes;
  fleets: DeviceFleets;
};

export class DeviceEffects {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #device: StoredDevice;
  readonly #parts: Parts;
  #inbox: Promise<void> = Promise.resolve();
  /** What users are being told before their subscriptions end. */
  #told: Promise<void> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env, device: StoredDevice, parts: Parts) {
    this.#ctx = ctx;
    this.#env = env;
    this.#device = device;
    this.#parts = parts;
  }

  /** @returns when D1 and the relay shards have had their chance to take what a caller waits for */
  async run(effects: readonly Effect[]): Promise<void> {
    await Promise.all(effects.flatMap((effect) => this.#run(effect) ?? []));
  }

  #run(effect: Effect): Promise<void> | undefined {
    const work = this.#begin(effect);
    const ended = work && waitable(this.#ctx, effect.kind, work);
    const isAwaited = effect.kind === 'write_projection' ? effect.isUrgent : awaited.includes(effect.kind);
    return isAwaited ? ended : undefined;
  }

  #begin(effect: Effect): Promise<void> | undefined {
    switch (effect.kind) {
      case 'push':
        this.#parts.pushes.add([this.#deliveryOf(effect, this.#device.readers())]);
        return undefined;
      case 'tell_readers': {
        const { run, subscriptions } = this.#deliveryOf(effect, effect.readers);
        return (this.#told = this.#parts.pushes.tell({ run: { ...run, isForUsers: true }, subscriptions }));
      }
      case 'publish_command':
        return this.#parts.commands.publish(effect);
      case 'publish_announcement':
        return this.#parts.commands.announce(effect);
      case 'end_direct_session':
        this.#parts.sockets.end(effect.reason);
        return undefined;
      case 'write_projection':
        return this.#writeProjection(effect);
      case 'check_record':
        return this.#checkRecord(effect.productKey);
      case 'delete_at_broker':
        log('error', 'device ended: the database has no record of it', this.#about);
        return this.#deleteAtBroker(effect.productKey);
      case 'end_relay_sessions':
        return this.#endRelaySessions(effect);
      case 'write_members':
        return this.#writeMembers(effect);
      case 'end_subscriptions':
        return this.#endSubscriptions(effect);
      case 'check_giver':
        return this.checkGivers([effect]);
      case 'ask_witness':
        return this.askWitness(effect);
      case 'tell_watcher':
        return this.#tellWatcher(effect);
      case 'tell_upgrade':
        return this.#tellUpgrade(effect);
      case 'send_image':
        return this.#sendImage(effect);
      case 'tell_campaign':
        return this.#tellCampaign(effect);
      case 'tell_homes':
        return this.#tellHomes();
      case 'learn_webhooks':
        return this.#learnWebhooks(effect.readers);
      case 'deliver_events':
        return this.#deliverEvents(effect);
      case 'tell_inbox':
        // In their order: a notice must not come after it was taken back.
        return (this.#inbox = waitable(this.#ctx, effect.kind, this.#tellInbox(effect, this.#inbox)));
      case 'notify_waiting':
        this.#parts.commands.wake(effect.commandId);
        return undefined;
      case 'log_failed_message': {
        const { spoolId, seq, error } = effect;
        log('error', 'message not handled', { ...this.#about, spoolId, seq, ...describeError(error) });
        return undefined;
      }
    }
  }

  #deliveryOf({ topic, payload, subscriptions, generations }: Push, readers: readonly number[]) {
    return { run: { ...this.#about, topic, payloads: [payload], generations, readers }, subscriptions };
  }

  /** An urgent projection, for which the owner waits, is not sent to the writer: it might wait behind a whole fleet. */
  async #writeProjection({ projection, isUrgent, mayBeLost }: EffectOf<'write_projection'>): Promise<void> {
    const deviceId = this.#deviceId;
    // What users wait for goes first.
    if (mayBeLost) await scheduler.wait(restMs);
    const written = isUrgent
      ? writeProjections(this.#database, [{ deviceId, projection }]).then(() => 'written' as const)
      : callProjectionWriter(this.#env, 'projections', 'once').write(deviceId, projection);
    const outcome = await orFailed('projection not written', this.#about, written);
    if (mayBeLost && outcome === 'written') return;
    this.#device.decide({ kind: 'projection_ended', version: projection.version, outcome });
  }

  async #checkRecord(productKey: string): Promise<void> {
    const { hasRecord, hasProduct } = await findRecordOf(this.#database, this.#deviceId, productKey);
    if (!hasRecord) {
      log(hasProduct ? 'error' : 'warn', 'the database has no record of a device', { ...this.#about, hasProduct });
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
    const isWritten = (await orFailed('members not written', this.#about, written)) !== 'failed';
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

  async #tellUpgrade({ campaignId, version, size, hash }: EffectOf<'tell_upgrade'>): Promise<void> {
    const link = { deviceId: this.#deviceId, linkId: campaignId };
    const token = await createLinkToken(readConfig(this.#env).messagingSecrets, 'image', link);
    await this.#send('otaUpgrade', { version, size, hash, url: `/f/${token}` });
  }

  async #sendImage(asked: EffectOf<'send_image'>): Promise<void> {
    const { offset, manifest } = asked;
    const bytes = await this.#readImage(asked).catch((error: unknown): ImageProblem => {
      const problem = error instanceof RefusedError ? imageProblems[error.refusal.kind] : undefined;
      if (problem === undefined) log('warn', 'image not read', { ...this.#about, ...describeError(error) });
      return problem ?? 'busy';
    });
    if (typeof bytes === 'string') return this.#send('otaData', { offset, error: bytes });
    for (let at = 0; at === 0 || at < bytes.length; at += dataBytes) {
      const data = bytes.subarray(at, at + dataBytes).toBase64();
      await this.#send('otaData', { offset: offset + at, manifest, data });
    }
  }

  async #readImage(asked: EffectOf<'send_image'>): Promise<Uint8Array | ImageProblem> {
    const { campaignId, offset, length, manifest } = asked;
    if (campaignId === null) return 'gone';
    const { name, size, signedManifest } = unwrap(await findImage(this.#database, campaignId));
    if (!manifest && offset >= size) return 'range';
    const bytes = manifest
      ? new TextEncoder().encode(signedManifest).subarray(offset, offset + length)
      : await (await this.#env.FIRMWARE.get(name, { range: { offset, length } }))?.bytes();
    if (bytes === undefined) return 'gone';
    // Not before it is known that the campaign goes on.
    const endsAt = manifest ? null : offset + bytes.length;
    unwrap(this.#device.decide({ kind: 'image_asked', campaignId, endsAt }));
    return bytes;
  }

  async #send(action: 'otaUpgrade' | 'otaData', body: object): Promise<void> {
    const identity = this.#device.identity();
    if (identity === undefined) return;
    await this.#parts.commands.send(topicOf(identity, topicActions[action]), JSON.stringify(body));
  }

  async #tellCampaign({ campaignId, report }: EffectOf<'tell_campaign'>): Promise<void> {
    await hasAnswer(callCampaign(this.#env, campaignId, 'idempotent').report(this.#deviceId, report));
  }

  async #tellHomes(): Promise<void> {
    const homes = this.#parts.fleets.homesOf(this.#device.readers());
    // Not in the midst of the decision whose effect this is.
    await Promise.resolve();
    const told = homes.map((home) => callHomeNamed(this.#env, home, 'once').note(this.#deviceId));
    await Promise.allSettled(told);
  }

  async #learnWebhooks(readers: readonly number[]): Promise<void> {
    await this.#parts.fleets.learnWebhooks(readers);
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
    const take = async (): Promise<TakeAnswer> => {
      const called = callWebhook(this.#env, webhookId, 'idempotent').take(this.#deviceId, wanted, gap, failures);
      const taken = await resultOr(undefined, within(takeWithinMs, called));
      return taken ?? { laterAtMs: Date.now() + takeAgainAfterMs };
    };
    const answer = wanted.length === 0 && gap === null ? { upTo } : await take();
    const taken = answer === 'gone' ? undefined : answer.upTo;
    const tookAll = taken !== undefined && taken >= (wanted.at(-1)?.number ?? 0);
    if (answer === 'gone') this.#parts.fleets.endLease(userId, true);
    this.#device.decide({ kind: 'events_taken', webhookId, after, answer: tookAll ? { upTo } : answer });
  }

  async #tellInbox({ userId, changes }: EffectOf<'tell_inbox'>, former: Promise<void>): Promise<void> {
    await former;
    const called = hasAnswer(callInbox(this.#env, userId, 'idempotent').change(changes));
    if ((await within(inboxWithinMs, called)) === true) this.#device.decide({ kind: 'inbox_told', userId, changes });
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

  get #about() {
    return { deviceId: this.#deviceId };
  }
}
