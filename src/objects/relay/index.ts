// Which sockets of a relay shard subscribe to which device, or to all devices of which user. Memory only: rebuilt from the attachments when the object wakes.
import { matchesFilter, parseFilter, parseFleetFilter } from '../../domain/topics.ts';
import { narrowFilter, type RelayClient } from './rules.ts';

export class RelayIndex {
  readonly #socketsByDevice = new Map<string, Map<WebSocket, string[]>>();
  readonly #fleetsByUser = new Map<number, Map<WebSocket, string[]>>();
  readonly #clients = new Map<WebSocket, RelayClient>();

  /** Replaces a socket's entry. */
  put(socket: WebSocket, client: RelayClient): void {
    this.remove(socket);
    this.#clients.set(socket, client);
    for (const [deviceId, filters] of filtersByDevice(client)) {
      const sockets = this.#socketsByDevice.get(deviceId) ?? new Map<WebSocket, string[]>();
      this.#socketsByDevice.set(deviceId, sockets.set(socket, filters));
    }
    const { who } = client;
    if (who?.kind !== 'user') return;
    const fleetFilters = client.filters
      .filter((filter) => parseFleetFilter(filter) !== undefined)
      .map((filter) => narrowFilter(filter, who));
    if (fleetFilters.length === 0) return;
    const fleets = this.#fleetsByUser.get(who.userId) ?? new Map<WebSocket, string[]>();
    this.#fleetsByUser.set(who.userId, fleets.set(socket, fleetFilters));
  }

  /** @returns the devices the socket was listed under */
  remove(socket: WebSocket): Iterable<string> {
    const client = this.#clients.get(socket);
    const deviceIds = client === undefined ? [] : [...filtersByDevice(client).keys()];
    for (const deviceId of deviceIds) {
      const sockets = this.#socketsByDevice.get(deviceId);
      sockets?.delete(socket);
      if (sockets?.size === 0) this.#socketsByDevice.delete(deviceId);
    }
    if (client?.who?.kind === 'user') {
      const fleets = this.#fleetsByUser.get(client.who.userId);
      fleets?.delete(socket);
      if (fleets?.size === 0) this.#fleetsByUser.delete(client.who.userId);
    }
    this.#clients.delete(socket);
    return deviceIds;
  }

  get size(): number {
    return this.#clients.size;
  }

  clients(): Iterable<[WebSocket, RelayClient]> {
    return this.#clients;
  }

  /** Without decoding the attachment: pushing asks for it once per socket and run. */
  clientOf(socket: WebSocket): RelayClient | undefined {
    return this.#clients.get(socket);
  }

  socketsOf(deviceId: string): WebSocket[] {
    return [...(this.#socketsByDevice.get(deviceId)?.keys() ?? [])];
  }

  /** Users with a subscription to all they have. */
  fleetUsers(): number[] {
    return [...this.#fleetsByUser.keys()];
  }

  hasFleetOf(userId: number): boolean {
    return this.#fleetsByUser.has(userId);
  }

  /** Whether `subscribersOf` would name the socket. */
  isSubscriber(socket: WebSocket, deviceId: string, topic: string, readers: readonly number[] = []): boolean {
    const lists = [this.#socketsByDevice.get(deviceId), ...readers.map((userId) => this.#fleetsByUser.get(userId))];
    return lists.some((list) => list?.get(socket)?.some((filter) => matchesFilter(filter, topic)));
  }

  /** Each socket once, however many of its filters match. @param readers the users who may follow the device */
  subscribersOf(deviceId: string, topic: string, readers: readonly number[] = []): WebSocket[] {
    const sockets = new Set<WebSocket>();
    const lists = [this.#socketsByDevice.get(deviceId), ...readers.map((userId) => this.#fleetsByUser.get(userId))];
    for (const list of lists) {
      for (const [socket, filters] of list ?? []) {
        if (filters.some((filter) => matchesFilter(filter, topic))) sockets.add(socket);
      }
    }
    return [...sockets];
  }
}

/** A client with device credentials is listed under its device even without a filter. */
function filtersByDevice({ who, filters }: RelayClient): Map<string, string[]> {
  const lists = new Map<string, string[]>();
  for (const filter of filters) {
    const deviceId = parseFilter(filter)?.device.deviceId;
    if (deviceId !== undefined) lists.set(deviceId, [...(lists.get(deviceId) ?? []), filter]);
  }
  if (who?.kind === 'device' && !lists.has(who.deviceId)) lists.set(who.deviceId, []);
  return lists;
}
