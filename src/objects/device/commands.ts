// Commands to one device, by users who may control it and by guest links: sends them, waits for their outcome, reads them. What
// a command does is decided by the core.
import type { Actor } from '../../domain/access.ts';
import { describeCommand } from '../../domain/device/commands/command-life.ts';
import {
  viewCommand,
  type AcceptedCommand,
  type CommandRequest,
  type CommandView,
} from '../../domain/device/commands/commands.ts';
import {
  countUsesLeft,
  keysOfLinks,
  viewAsGuest,
  type GuestReceipt,
  type GuestUse,
  type GuestView,
} from '../../domain/device/commands/guest-links.ts';
import { pageOf } from '../../domain/device/core/views.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import { refuse, type Outcome } from '../../domain/refusal.ts';
import type { CommandState } from '../../protocol/vocabulary.ts';
import type { DeviceEffects } from './effects.ts';
import type { StoredDevice } from './stored-device.ts';

export type CommandReceipt = { commandId: string; deviceOnline: boolean; expiresAtMs: number } & (
  { state?: never; elapsedMs?: never } | { state: CommandState; elapsedMs: number }
);

export class DeviceCommands {
  readonly #device: StoredDevice;
  readonly #effects: DeviceEffects;

  constructor(device: StoredDevice, effects: DeviceEffects) {
    this.#device = device;
    this.#effects = effects;
  }

  async send(actor: Actor, request: CommandRequest): Promise<Outcome<CommandReceipt>> {
    this.#device.checkDirect();
    const accepted = this.#device.decide({ kind: 'command_requested', actor, request });
    return accepted.ok ? this.#follow(accepted.value, request.waitSeconds) : accepted;
  }

  async #follow(
    { publication, ...receipt }: AcceptedCommand,
    waitSeconds: number | undefined,
  ): Promise<Outcome<CommandReceipt>> {
    const outcome = publication === 'pending' ? await this.#effects.publicationOf(receipt.commandId) : publication;
    if (outcome !== 'sent') return refuse({ kind: 'not_published', because: outcome });
    if (waitSeconds === undefined) return { ok: true, value: receipt };
    const isWaiting = () => {
      const command = this.#find(receipt.commandId);
      return command?.deviceAcknowledgedAtMs === null && command.undeliveredBecause === null;
    };
    await this.#effects.waitForReply(receipt.commandId, waitSeconds * 1000, isWaiting);
    const command = this.#find(receipt.commandId);
    const { present } = this.#device;
    if (command === undefined || typeof present === 'string') return refuse({ kind: 'not_found', what: 'device' });
    const { deviceAcknowledgedAtMs, acceptedAtMs } = command;
    const { state } = describeCommand(command, present.presence.connection.isOnline, Date.now());
    return { ok: true, value: { ...receipt, state, elapsedMs: (deviceAcknowledgedAtMs ?? Date.now()) - acceptedAtMs } };
  }

  list(actor: Actor, page: PageRequest): Outcome<Page<CommandView>> {
    return this.#device.ask(actor, 'readCommands', (state) => {
      const views = this.#device.storage
        .listCommands()
        .map((command) => viewCommand(state, command, Date.now(), actor));
      return pageOf(views, page);
    });
  }

  read(actor: Actor, commandId: string): Outcome<CommandView> {
    const viewed = this.#device.ask(actor, 'readCommands', (state) => {
      const command = this.#find(commandId);
      return command && viewCommand(state, command, Date.now(), actor);
    });
    if (!viewed.ok) return viewed;
    const { value } = viewed;
    return value === undefined ? refuse({ kind: 'not_found', what: 'command', id: commandId }) : { ok: true, value };
  }

  /** Guest links end with the API key that made them. Links of a person read nothing in D1. */
  async endLinksOfKeys(linkId?: string): Promise<void> {
    const { present } = this.#device;
    const keys = typeof present === 'string' ? [] : keysOfLinks(present, linkId);
    await this.#effects.checkGivers(keys);
  }

  async viewAsGuest(linkId: string): Promise<Outcome<GuestView>> {
    await this.endLinksOfKeys(linkId);
    this.#device.checkDirect();
    const { present } = this.#device;
    if (typeof present === 'string') return refuse({ kind: 'not_found', what: 'device' });
    return viewAsGuest(present, linkId, Date.now());
  }

  async sendAsGuest(use: GuestUse, waitSeconds: number): Promise<Outcome<GuestReceipt>> {
    await this.endLinksOfKeys(use.linkId);
    this.#device.checkDirect();
    const { present } = this.#device;
    if (typeof present === 'string') return refuse({ kind: 'not_found', what: 'device' });
    const accepted = this.#device.decide({ kind: 'guest_link_used', ...use });
    if (!accepted.ok) return accepted;
    const followed = await this.#follow(accepted.value, waitSeconds);
    if (!followed.ok) return followed;
    const after = this.#device.present;
    const usesLeft = typeof after === 'string' ? 0 : countUsesLeft(after, use.linkId, Date.now());
    return { ok: true, value: { ...followed.value, deviceName: present.identity.name, usesLeft } };
  }

  #find(commandId: string) {
    return typeof this.#device.present === 'string' ? undefined : this.#device.storage.findCommand(commandId);
  }
}
