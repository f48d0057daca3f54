// Commands of one device on their way: hands each to the direct session, to the broker or to a scene, and answers the caller who gave
// it. Announcements go the same ways. Decides nothing: what became of a publication goes back to the device as an event.
import { readConfig } from '../../config.ts';
import { findApiKey } from '../../db/accounts/api-keys.ts';
import { openDatabase } from '../../db/client.ts';
import { actorOf, inPerson } from '../../domain/access.ts';
import { describeCommand } from '../../domain/device/commands/command-life.ts';
import type { AcceptedCommand } from '../../domain/device/commands/commands.ts';
import type { EffectOf } from '../../domain/device/core/events.ts';
import { viewCommandWitness } from '../../domain/device/witness/witness.ts';
import type { PublishFailure, PublishOutcome } from '../../domain/publish-outcome.ts';
import { accept, refuse, type Outcome } from '../../domain/refusal.ts';
import { toIso } from '../../domain/time.ts';
import { log } from '../../log.ts';
import type { CommandState } from '../../protocol/vocabulary.ts';
import { orFailed } from '../calls/background.ts';
import { startScene } from '../calls/start-scene.ts';
import { callBrokerLink, resultOr } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';
import type { DirectDelivery, DirectSockets } from './direct-sockets.ts';
import type { StoredDevice } from './stored-device.ts';

export type CommandReceipt = { commandId: string; deviceOnline: boolean; expiresAt: string } & (
  | { state?: never; elapsedMs?: never }
  | { state: CommandState; elapsedMs: number; witness?: ReturnType<typeof viewCommandWitness> }
);

const sendWithinMs = 10_000;

type BrokerLink = ReturnType<typeof callBrokerLink>;

export class DeviceCommands {
  readonly #device: StoredDevice;
  readonly #sockets: DirectSockets;
  /** One for all: publishes arrive in the order in which they were made. */
  readonly #link: BrokerLink;
  readonly #publications = new Map<string, Promise<'sent' | PublishFailure>>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(device: StoredDevice, sockets: DirectSockets) {
    this.#device = device;
    this.#sockets = sockets;
    this.#link = callBrokerLink(device.env, 'once');
  }

  /** Answers when the broker has the command, or, with `waitSeconds`, when it ended or the time is over. */
  async follow(
    { commandId, deviceOnline, expiresAtMs, publication }: AcceptedCommand,
    waitSeconds: number | undefined,
    until?: 'witnessed',
  ): Promise<Outcome<CommandReceipt>> {
    // This object may not know of it any more.
    const published = publication === 'pending' ? await this.#publications.get(commandId) : publication;
    if (published !== 'sent') return refuse({ kind: 'not_published', because: published ?? 'unreachable', commandId });
    const receipt = { commandId, deviceOnline, expiresAt: toIso(expiresAtMs) };
    if (waitSeconds === undefined) return accept(receipt);
    const isWaiting = () => {
      const command = this.#find(commandId);
      if (command === undefined || command.undeliveredBecause !== null) return false;
      if (until === 'witnessed' && command.witness !== undefined) return command.witness.outcome === 'pending';
      return command.deviceAcknowledgedAtMs === null;
    };
    await this.#wait(commandId, waitSeconds * 1000, isWaiting);
    const command = this.#find(commandId);
    const { present } = this.#device;
    if (command === undefined || typeof present === 'string') return refuse({ kind: 'not_found', what: 'device' });
    const { deviceAcknowledgedAtMs, acceptedAtMs } = command;
    const { state } = describeCommand(command, present.presence.connection.isOnline, Date.now());
    const witness = until && { witness: viewCommandWitness(command) };
    return accept({ ...receipt, ...witness, state, elapsedMs: (deviceAcknowledgedAtMs ?? Date.now()) - acceptedAtMs });
  }

  /** Something became of the command: requests that wait for its end look again. */
  wake(commandId: string): void {
    for (const lookAgain of this.#waiting.get(commandId) ?? []) lookAgain();
  }

  async publish(effect: EffectOf<'publish_command'>): Promise<void> {
    const publication = this.#publishCommand(effect);
    this.#publications.set(effect.commandId, publication);
    await publication;
  }

  async announce(effect: EffectOf<'publish_announcement'>): Promise<void> {
    const { topic, payload, time, expiresAtMs, isDirect } = effect;
    this.#sockets.publish(topic, payload, null);
    await Promise.resolve();
    const outcome = isDirect ? undefined : await this.#publishToBroker({ topic, payload, expiresAtMs });
    const isPublished = outcome?.ok !== false;
    if (!isPublished) log('warn', 'announcement not published', { ...this.#device.about, reason: outcome.reason });
    this.#device.decide({ kind: 'announcement_ended', time, isPublished });
  }

  async #publishCommand(effect: EffectOf<'publish_command'>): Promise<'sent' | PublishFailure> {
    const { commandId, topic, payload, expiresAtMs, messageExpirySeconds, scene } = effect;
    const outcome =
      (scene && (await this.#startScene(commandId, scene))) ??
      outcomeOf(this.#sockets.publish(topic, payload, commandId), commandId) ??
      (await this.#publishToBroker({ topic, payload, expiresAtMs, messageExpirySeconds }));
    // Not in the midst of the decision whose effect this is.
    await Promise.resolve();
    this.#publications.delete(commandId);
    if (!outcome.ok) {
      log('warn', 'command not published', { ...this.#device.about, commandId, reason: outcome.reason });
    }
    this.#device.decide({ kind: 'publication_ended', commandId, outcome });
    return outcome.ok ? 'sent' : outcome.reason;
  }

  /** The run has the id of the command: started again, it is the same. */
  async #startScene(
    commandId: string,
    { sceneId, userId, keyId }: NonNullable<EffectOf<'publish_command'>['scene']>,
  ): Promise<PublishOutcome> {
    const start = async () => {
      const database = openDatabase(this.#device.env.DB);
      const key = keyId === null ? null : await findApiKey(database, keyId);
      const actor = key === null ? inPerson(userId) : key && actorOf(key);
      return actor && (await startScene(this.#device.env, database, actor, sceneId, commandId));
    };
    const started = await orFailed('scene not started', this.#device.about, start());
    if (started === 'failed') return { ok: false, reason: 'unreachable' };
    return { ok: true, id: commandId, publishedAtMs: Date.now(), hasSubscribers: started?.ok === true };
  }

  /** To the direct session, else to the broker; nobody is told whether it came. */
  async send(topic: string, payload: string): Promise<void> {
    if (this.#sockets.publish(topic, payload, null) !== undefined) return;
    await this.#publishToBroker({ topic, payload, expiresAtMs: Date.now() + sendWithinMs });
  }

  async #publishToBroker(request: Parameters<BrokerLink['publish']>[0]): Promise<PublishOutcome> {
    if (readConfig(this.#device.env).hasBroker) {
      return resultOr({ ok: false, reason: 'unreachable' } as const, this.#link.publish(request));
    }
    // As a broker answers for a device that is away.
    return { ok: true, id: '', publishedAtMs: Date.now(), hasSubscribers: false };
  }

  /** The request that waits keeps the object awake meanwhile. */
  async #wait(commandId: string, waitMs: number, isWaiting: () => boolean): Promise<void> {
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

  #find(commandId: string) {
    return typeof this.#device.present === 'string' ? undefined : this.#device.storage.findCommand(commandId);
  }
}

function outcomeOf(delivery: DirectDelivery, id: string): PublishOutcome | undefined {
  if (delivery === undefined) return undefined;
  if (delivery === 'busy') return { ok: false, reason: 'device_busy' };
  return { ok: true, id, publishedAtMs: Date.now(), hasSubscribers: delivery === 'written' };
}
