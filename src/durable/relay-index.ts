// Which sockets of a relay shard hear of which device. Memory only: rebuilt from attachments when the object wakes.
import { matchesFilter, parseFilter } from '../domain/topics.ts';
import type { RelayClient } from './relay-socket.ts';

export class RelayIndex {
  readonly #socketsByDevice = new Map<string, Map<WebSocket, string[]>>();
  readonly #devicesBySocket = new Map<WebSocket, Set<string>>();
  readonly #clients = new Map<WebSocket, RelayClient>();

  /** Replaces what is known of a socket. One signed in as a device is listed under it without any filter, too. */
  put(socket: WebSocket, client: RelayClient): void {
    this.remove(socket);
    this.#clients.set(socket, client);
    if (client.who?.kind === 'device') this.#list(client.who.deviceId, socket);
    for (const filter of client.filters) {
      const deviceId = parseFilter(filter)?.device.deviceId;
      if (deviceId !== undefined) this.#list(deviceId, socket).push(filter);
    }
  }

  /** Answers which devices the socket was listed under. */
  remove(socket: WebSocket): Iterable<string> {
    const deviceIds = this.#devicesBySocket.get(socket) ?? [];
    for (const deviceId of deviceIds) {
      const sockets = this.#socketsByDevice.get(deviceId);
      sockets?.delete(socket);
      if (sockets?.size === 0) this.#socketsByDevice.delete(deviceId);
    }
    this.#devicesBySocket.delete(socket);
    this.#clients.delete(socket);
    return deviceIds;
  }

  clients(): Iterable<[WebSocket, RelayClient]> {
    return this.#clients;
  }

  /** The client behind a socket, without decoding its attachment: pushing asks this once a socket and message. */
  clientOf(socket: WebSocket): RelayClient | undefined {
    return this.#clients.get(socket);
  }

  socketsOf(deviceId: string): WebSocket[] {
    return [...(this.#socketsByDevice.get(deviceId)?.keys() ?? [])];
  }

  /** Each socket once, however many of its filters match. */
  listenersTo(deviceId: string, topic: string): WebSocket[] {
    const listeners: WebSocket[] = [];
    for (const [socket, filters] of this.#socketsByDevice.get(deviceId) ?? []) {
      if (filters.some((filter) => matchesFilter(filter, topic))) listeners.push(socket);
    }
    return listeners;
  }

  #list(deviceId: string, socket: WebSocket): string[] {
    const sockets = this.#socketsByDevice.get(deviceId) ?? new Map<WebSocket, string[]>();
    const filters = sockets.get(socket) ?? [];
    this.#socketsByDevice.set(deviceId, sockets.set(socket, filters));
    this.#devicesBySocket.set(socket, (this.#devicesBySocket.get(socket) ?? new Set()).add(deviceId));
    return filters;
  }
}
