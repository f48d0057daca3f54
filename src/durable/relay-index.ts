// Which sockets of a relay shard subscribe to which device. Memory only: rebuilt from the attachments when the object wakes.
import { matchesFilter, parseFilter } from '../domain/topics.ts';
import type { RelayClient } from './relay-rules.ts';

export class RelayIndex {
  readonly #socketsByDevice = new Map<string, Map<WebSocket, string[]>>();
  readonly #clients = new Map<WebSocket, RelayClient>();

  /** Replaces a socket's entry. */
  put(socket: WebSocket, client: RelayClient): void {
    this.remove(socket);
    this.#clients.set(socket, client);
    for (const [deviceId, filters] of filtersByDevice(client)) {
      const sockets = this.#socketsByDevice.get(deviceId) ?? new Map<WebSocket, string[]>();
      this.#socketsByDevice.set(deviceId, sockets.set(socket, filters));
    }
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

  /** Each socket once, however many of its filters match. */
  subscribersOf(deviceId: string, topic: string): WebSocket[] {
    const sockets: WebSocket[] = [];
    for (const [socket, filters] of this.#socketsByDevice.get(deviceId) ?? []) {
      if (filters.some((filter) => matchesFilter(filter, topic))) sockets.push(socket);
    }
    return sockets;
  }
}

/** A client with device credentials is listed under its device even without a filter. */
function filtersByDevice({ who, filters }: RelayClient): Map<string, string[]> {
  const lists = Map.groupBy(filters, (filter) => parseFilter(filter)?.device.deviceId ?? '');
  if (who?.kind === 'device' && !lists.has(who.deviceId)) lists.set(who.deviceId, []);
  return lists;
}
