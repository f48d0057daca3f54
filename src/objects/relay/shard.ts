// The sockets of one relay shard: whose each is, what it subscribes to, what goes out on it, and how it ends. The attachment
// of a socket survives hibernation, memory does not. It must not ask another object.
import { readConfig } from '../../config.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import type { Limit } from '../../domain/refusal.ts';
import { log } from '../../log.ts';
import type { RevokeCause } from '../../protocol/relay.ts';
import { parseFilter } from '../../domain/topics.ts';
import { closeIfOpen, sendIfOpen } from '../calls/open-socket.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';
import { FrameRates, frameLimits, socketLimitReached, socketLimits, surplusOf } from './admission.ts';
import { Outbox, unreadLimits } from './outbox.ts';
import { deadlineOf, isSameIdentity, type RelayClient, type RelayIdentity } from './rules.ts';
import { Subscribers } from './subscribers.ts';

/** The alarm checks all sockets this often. */
const checkEveryMs = 60_000;
/** No mistake of a client: each such frame takes memory of all sockets of the shard. */
const giantFrameBytes = 64 * 1024;

/** The platform refuses larger attachments. */
export const maxAttachmentBytes = 16_384;

/** Why this side closes a socket; the client gets it as the reason. */
export type CloseCause =
  | RevokeCause
  | 'frame larger than 16 KiB'
  | 'MQTT is at /mqtt/{deviceId}'
  | 'API key deleted'
  | 'account disabled'
  | 'not authenticated in time'
  | 'token expired'
  | 'too many frames'
  | 'too many sockets of this device'
  | 'too many sockets of this user'
  | 'too many sockets that have not authenticated'
  | 'too much unread'
  | 'too many failed authentications';

export class Shard {
  readonly name: string;
  readonly subscribers = new Subscribers();
  readonly outbox: Outbox<WebSocket>;
  readonly #ctx: DurableObjectState;
  readonly #limits;
  readonly #rates: FrameRates<WebSocket> | undefined;
  readonly #blocked = new BlockedAddresses();
  /** All connections, oldest first, closed sockets included until their clients answer the close. */
  readonly #clients = new Map<WebSocket, RelayClient>();

  constructor(ctx: DurableObjectState, env: Env) {
    const { limits, rateLimits } = readConfig(env);
    this.name = ctx.id.name ?? '';
    this.#ctx = ctx;
    this.#limits = socketLimits(limits);
    this.#rates = rateLimits === 'production' ? new FrameRates(frameLimits(limits)) : undefined;
    this.outbox = new Outbox(unreadLimits(limits), {
      send: sendIfOpen,
      mayHave: (socket, run) =>
        this.subscribers.has(socket, run.deviceId, run.topic, run.readers) && this.isAllowed(socket, run),
      endUnread: (socket) => this.end(socket, 1013, 'too much unread'),
      nextTurn: () => scheduler.wait(0),
      inBackground: (work) => ctx.waitUntil(work),
    });
    const clients = ctx.getWebSockets().map((socket): [WebSocket, RelayClient] => [socket, readClient(socket)]);
    for (const [socket, client] of clients.sort(([, a], [, b]) => a.openedAtMs - b.openedAtMs)) {
      this.#add(socket, client);
    }
  }

  clients(): [WebSocket, RelayClient][] {
    return [...this.#clients].filter(([, { isEnded }]) => !isEnded);
  }

  clientOf(socket: WebSocket): RelayClient | undefined {
    const client = this.#clients.get(socket);
    return client?.isEnded === true ? undefined : client;
  }

  limitReached(address: string): Limit | undefined {
    const secondsLeft = this.#blocked.secondsLeft(address);
    if (secondsLeft > 0) return { name: 'relayBlockSeconds', max: secondsLeft };
    return socketLimitReached(this.#clients, address, this.#limits);
  }

  async open(socket: WebSocket, address: string): Promise<void> {
    const opened = { socketId: crypto.randomUUID(), address, openedAtMs: Date.now() };
    const client = { ...opened, failedAuths: 0, who: null, filters: [], isEnded: false };
    writeClient(socket, client);
    this.#add(socket, client);
    for (const oldest of surplusOf(this.#clients, null, this.#limits)) {
      this.end(oldest, 1013, 'too many sockets that have not authenticated');
    }
    await this.wakeBy(deadlineOf(client));
  }

  /** False if the attachment has no room for the change. */
  change(socket: WebSocket, client: RelayClient): boolean {
    const former = this.#clients.get(socket);
    if (former === undefined || !writeClient(socket, client)) return false;
    this.subscribers.remove(socket, former);
    this.subscribers.add(socket, client);
    this.#clients.set(socket, client);
    return true;
  }

  async signIn(socket: WebSocket, former: RelayClient, who: RelayIdentity): Promise<void> {
    // Another identity inherits no subscriptions.
    const client = { ...former, who, filters: isSameIdentity(former.who, who) ? former.filters : [] };
    this.change(socket, client);
    for (const oldest of surplusOf(this.#clients, who, this.#limits)) {
      this.end(oldest, 1008, `too many sockets of this ${who.kind}`);
    }
    await this.wakeBy(deadlineOf(client));
  }

  /** False, and the socket is closed, if the client sends too fast. */
  takeFrame(socket: WebSocket, { address }: RelayClient): boolean {
    if (this.#rates?.mayBeSentOn(socket, Date.now()) !== false) return true;
    // Each new socket would have a burst of its own.
    this.#blocked.block(address);
    this.end(socket, 1008, 'too many frames');
    return false;
  }

  refuseFrame(socket: WebSocket, { address }: RelayClient, size: number): void {
    if (size > giantFrameBytes && this.#rates !== undefined) this.#blocked.block(address);
    this.end(socket, 1009, 'frame larger than 16 KiB');
  }

  takeRequest(client: RelayClient, cost = 1): boolean {
    return this.#rates?.mayBeSentBy(client, Date.now(), cost) !== false;
  }

  dropFilters(socket: WebSocket, deviceId: string): void {
    const client = this.clientOf(socket);
    if (client === undefined) return;
    const filters = client.filters.filter((filter) => parseFilter(filter)?.device.deviceId !== deviceId);
    this.change(socket, { ...client, filters });
  }

  end(socket: WebSocket, code: number, cause: CloseCause): void {
    this.log('info', 'relay socket closed', socket, { code, cause });
    this.#forget(socket);
    closeIfOpen(socket, code, cause);
  }

  remove(socket: WebSocket): void {
    this.#forget(socket);
    this.outbox.remove(socket);
    this.#clients.delete(socket);
  }

  /** Sets the alarm for that time, or for the next check of all sockets if that is sooner. */
  async wakeBy(deadlineMs: number): Promise<void> {
    const { storage } = this.#ctx;
    const atMs = Math.min(deadlineMs, Date.now() + checkEveryMs);
    const plannedMs = await storage.getAlarm();
    if (plannedMs === null || plannedMs > atMs) await storage.setAlarm(atMs);
  }

  /**
   * A user's socket may not outlive its token, and the alarm that closes it may be late. Nor may it outlive the right to the
   * device, and the call that ends its subscription may have failed: the message says who may follow the device.
   */
  isAllowed(socket: WebSocket, { deviceId, readers, isForUsers }: RelayRun): boolean {
    const client = this.clientOf(socket);
    if (client === undefined || deadlineOf(client) <= Date.now()) return false;
    if (client.who?.kind !== 'user') return isForUsers !== true;
    if (client.who.deviceIds?.includes(deviceId) === false) return false;
    return readers === undefined || readers.includes(client.who.userId);
  }

  log(level: 'info' | 'warn', event: string, socket: WebSocket, fields: Record<string, unknown>): void {
    log(level, event, { shard: this.name, socketId: this.#clients.get(socket)?.socketId, ...fields });
  }

  #add(socket: WebSocket, client: RelayClient): void {
    this.#clients.set(socket, client);
    this.outbox.open(socket, client.address);
    if (client.isEnded) this.outbox.end(socket);
    else this.subscribers.add(socket, client);
  }

  #forget(socket: WebSocket): void {
    const client = this.clientOf(socket);
    if (client === undefined) return;
    this.outbox.end(socket);
    this.subscribers.remove(socket, client);
    // The object may be evicted before the client answers the close: the socket must not be pushed to afterwards.
    const ended = { ...client, isEnded: true, filters: [] };
    writeClient(socket, ended);
    this.#clients.set(socket, ended);
  }
}

export function readClient(socket: WebSocket): RelayClient {
  return socket.deserializeAttachment() as RelayClient;
}

/** False if it does not fit: the client needs a second socket for that many long filters. */
function writeClient(socket: WebSocket, client: RelayClient): boolean {
  if (JSON.stringify(client).length > maxAttachmentBytes - 1024) return false;
  socket.serializeAttachment(client);
  return true;
}
