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
import type { DirectSockets } from './direct-sockets.ts';
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
  readonly #device: StoredDevice;
  readonly #parts: Parts;
  #inbox: Promise<void> = Promise.resolve();
  /** What users are being told before their subscriptions end. */
  #told: Promise<void> = Promise.resolve();

  constructor(device: StoredDevice, parts: Parts) {
    this.#device = device;
    this.#parts = parts;
  }

  /** @returns when D1 and the relay shards have had their chance to take what a caller waits for */
  async run(effects: readonly Effect[]): Promise<void> {
    await Promise.all(effects.flatMap((effect) => this.#run(effect) ?? []));
  }

  #run(effect: Effect): Promise<void> | undefined {
    // The table ties each kind to its effect, which the compiler does not follow.
    const begin = this.#begin[effect.kind] as (effect: Effect) => Promise<void> | undefined;
    const work = begin(effect);
    const ended = work && waitable(this.#device.ctx, effect.kind, work);
    const isAwaited = effect.kind === 'write_projection' ? effect.isUrgent : awaited.includes(effect.kind);
    return isAwaited ? ended : undefined;
  }

  readonly #begin: { [Kind in Effect['kind']]: (effect: EffectOf<Kind>) => Promise<void> | void } = {
    push: (effect) => this.#parts.pushes.add([this.#deliveryOf(effect, this.#device.readers())]),

    tell_readers: (effect) => {
      const { run, subscriptions } = this.#deliveryOf(effect, effect.readers);
      return (this.#told = this.#parts.pushes.tell({ run: { ...run, isForUsers: true }, subscriptions }));
    },

    publish_command: (effect) => this.#parts.commands.publish(effect),
    publish_announcement: (effect) => this.#parts.commands.announce(effect),
    notify_waiting: ({ commandId }) => this.#parts.commands.wake(commandId),
    end_direct_session: ({ reason }) => this.#parts.sockets.end(reason),
    tell_upgrade: (effect) => this.#tellUpgrade(effect),
    send_image: (effect) => this.#sendImage(effect),
    tell_campaign: (effect) => this.#tellCampaign(effect),
    check_giver: (effect) => this.checkGivers([effect]),
    ask_witness: (effect) => this.askWitness(effect),

    /** An urgent projection, for which the owner waits, is not sent to the writer: it might wait behind a whole fleet. */
    write_projection: async ({ projection, isUrgent, mayBeLost }) => {
      const { env, about, deviceId } = this.#device;
      // What users wait for goes first.
      if (mayBeLost) await scheduler.wait(restMs);
      const written = isUrgent
        ? writeProjections(this.#database, [{ deviceId, projection }]).then(() => 'written' as const)
        : callProjectionWriter(env, 'projections', 'once').write(deviceId, projection);
      const outcome = await orFailed('projection not written', about, written);
      if (mayBeLost && outcome === 'written') return;
      this.#device.decide({ kind: 'projection_ended', version: projection.version, outcome });
    },

    check_record: async ({ productKey }) => {
      const { about, deviceId } = this.#device;
      const { hasRecord, hasProduct } = await findRecordOf(this.#database, deviceId, productKey);
      if (!hasRecord) {
        log(hasProduct ? 'error' : 'warn', 'the database has no record of a device', { ...about, hasProduct });
      }
      if (hasRecord || hasProduct) this.#device.decide({ kind: 'record_checked', isThere: hasRecord });
    },

    /** Like the deletion by an owner; services/broker/provisioning.ts delivers it. */
    delete_at_broker: async ({ productKey }) => {
      const { env, about, deviceId } = this.#device;
      log('error', 'device ended: the database has no record of it', about);
      if (readConfig(env).broker.provisioning === 'none') return;
      const nowMs = Date.now();
      await putOutboxEntry(this.#database, {
        deviceId,
        productKey,
        operation: 'delete',
        sealedPassword: null,
        endsSessions: false,
        requestedAt: nowMs,
        nextAttemptAt: nowMs,
      });
    },

    write_members: async ({ version, members }) => {
      const { about, deviceId } = this.#device;
      const written = writeMembers(this.#database, deviceId, version, members);
      const isWritten = (await orFailed('members not written', about, written)) !== 'failed';
      this.#device.decide({ kind: 'members_written', version, isWritten });
    },

    end_subscriptions: async ({ userId, shard }) => {
      await this.#told;
      const { env, deviceId } = this.#device;
      const isDone = await hasAnswer(callRelay(env, shard, 'idempotent').endSubscriptions(deviceId, userId));
      this.#device.decide({ kind: 'subscriptions_ended', userId, shard, isDone });
    },

    /** If a shard cannot be reached, its sockets are gone, or the device's next message ends them. */
    end_relay_sessions: async ({ cause, shards, generations }) => {
      await this.#told;
      const { env, deviceId } = this.#device;
      const ended = shards.map((shard) => callRelay(env, shard, 'idempotent').revoke(deviceId, cause, generations));
      await Promise.allSettled(ended);
    },

    tell_watcher: async ({ deviceId, reading }) => {
      const watcher = callDevice(this.#device.env, deviceId, 'idempotent');
      const told = watcher.decide({ kind: 'witness_read', deviceId: this.#device.deviceId, reading });
      const answer = await resultOr(undefined, told);
      if (answer?.ok === false) this.#device.decide({ kind: 'watcher_ended', deviceId });
    },

    tell_homes: async () => {
      const { env, deviceId } = this.#device;
      const homes = this.#parts.fleets.homesOf(this.#device.readers());
      // Not in the midst of the decision whose effect this is.
      await Promise.resolve();
      await Promise.allSettled(homes.map((home) => callHomeNamed(env, home, 'once').note(deviceId)));
    },

    learn_webhooks: async ({ readers }) => {
      await this.#parts.fleets.learnWebhooks(readers);
      await Promise.resolve();
      this.#device.decide({ kind: 'webhooks_changed' });
    },

    /** Events that the endpoint does not want are passed over; a gap is told as they are. */
    deliver_events: async ({ webhookId, userId, types, after, last, failures }) => {
      const { env, deviceId } = this.#device;
      const { events, gap } = this.#device.storage.listEventsAfter(after, last, eventsPerTake);
      const wanted = events.filter(({ type }) => types.includes(type));
      const upTo = events.at(-1)?.number ?? last;
      await Promise.resolve();
      const take = async (): Promise<TakeAnswer> => {
        const called = callWebhook(env, webhookId, 'idempotent').take(deviceId, wanted, gap, failures);
        const taken = await resultOr(undefined, within(takeWithinMs, called));
        return taken ?? { laterAtMs: Date.now() + takeAgainAfterMs };
      };
      const answer = wanted.length === 0 && gap === null ? { upTo } : await take();
      const taken = answer === 'gone' ? undefined : answer.upTo;
      const tookAll = taken !== undefined && taken >= (wanted.at(-1)?.number ?? 0);
      if (answer === 'gone') this.#parts.fleets.endLease(userId, true);
      this.#device.decide({ kind: 'events_taken', webhookId, after, answer: tookAll ? { upTo } : answer });
    },

    tell_inbox: (effect) =>
      // In their order: a notice must not come after it was taken back.
      (this.#inbox = waitable(this.#device.ctx, effect.kind, this.#tellInbox(effect, this.#inbox))),

    log_failed_message: ({ spoolId, seq, error }) =>
      log('error', 'message not handled', { ...this.#device.about, spoolId, seq, ...describeError(error) }),
  };

  #deliveryOf({ topic, payload, subscriptions, generations }: Push, readers: readonly number[]) {
    return { run: { ...this.#device.about, topic, payloads: [payload], generations, readers }, subscriptions };
  }

  async #tellInbox({ userId, changes }: EffectOf<'tell_inbox'>, former: Promise<void>): Promise<void> {
    await former;
    const called = hasAnswer(callInbox(this.#device.env, userId, 'idempotent').change(changes));
    if ((await within(inboxWithinMs, called)) === true) this.#device.decide({ kind: 'inbox_told', userId, changes });
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
    const other = callDevice(this.#device.env, deviceId, 'idempotent');
    const asked = other.decide({ kind: 'reading_asked', deviceId: this.#device.deviceId, untilMs });
    const answer = await resultOr(undefined, within(witnessWithinMs, asked));
    if (answer?.ok === true && answer.value !== null)
      this.#device.decide({ kind: 'witness_read', deviceId, reading: answer.value });
    if (commandId === null) return;
    const problem = answer === undefined ? 'unreachable' : answer.ok ? null : 'forbidden';
    if (problem !== 'unreachable') this.#device.decide({ kind: 'witness_asked', commandId, problem });
  }

  async #tellUpgrade({ campaignId, version, size, hash }: EffectOf<'tell_upgrade'>): Promise<void> {
    const link = { deviceId: this.#device.deviceId, linkId: campaignId };
    const token = await createLinkToken(readConfig(this.#device.env).messagingSecrets, 'image', link);
    await this.#send('otaUpgrade', { version, size, hash, url: `/f/${token}` });
  }

  async #sendImage(asked: EffectOf<'send_image'>): Promise<void> {
    const { offset, manifest } = asked;
    const bytes = await this.#readImage(asked).catch((error: unknown): ImageProblem => {
      const problem = error instanceof RefusedError ? imageProblems[error.refusal.kind] : undefined;
      if (problem === undefined) log('warn', 'image not read', { ...this.#device.about, ...describeError(error) });
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
      : await (await this.#device.env.FIRMWARE.get(name, { range: { offset, length } }))?.bytes();
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
    await hasAnswer(callCampaign(this.#device.env, campaignId, 'idempotent').report(this.#device.deviceId, report));
  }

  get #database() {
    return openDatabase(this.#device.env.DB);
  }
}
