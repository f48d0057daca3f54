// Which sockets of a relay shard subscribe to which device, or to all devices of which user. In memory: rebuilt from the
// attachments when the object wakes.
import { matchesFilter, parseFilter, parseFleetFilter } from '../../domain/topics.ts';
import { narrowFilter, type RelayClient } from './rules.ts';

type FilterLists<Key> = Map<Key, Map<WebSocket, string[]>>;

export class Subscribers {
  readonly #byDevice: FilterLists<string> = new Map();
  readonly #fleetsByUser: FilterLists<number> = new Map();

  add(socket: WebSocket, client: RelayClient): void {
    for (const [deviceId, filters] of filtersByDevice(client)) addTo(this.#byDevice, deviceId, socket, filters);
    const { who } = client;
    if (who?.kind !== 'user') return;
    const fleetFilters = client.filters
      .filter((filter) => parseFleetFilter(filter) !== undefined)
      .map((filter) => narrowFilter(filter, who));
    if (fleetFilters.length > 0) addTo(this.#fleetsByUser, who.userId, socket, fleetFilters);
  }

  /** @param client as it was added */
  remove(socket: WebSocket, client: RelayClient): void {
    for (const deviceId of filtersByDevice(client).keys()) removeFrom(this.#byDevice, deviceId, socket);
    if (client.who?.kind === 'user') removeFrom(this.#fleetsByUser, client.who.userId, socket);
  }

  ofDevice(deviceId: string): WebSocket[] {
    return [...(this.#byDevice.get(deviceId)?.keys() ?? [])];
  }

  fleetUsers(): number[] {
    return [...this.#fleetsByUser.keys()];
  }

  hasFleetOf(userId: number): boolean {
    return this.#fleetsByUser.has(userId);
  }

  /** Whether `ofTopic` would include the socket. */
  has(socket: WebSocket, deviceId: string, topic: string, readers: readonly number[] = []): boolean {
    return this.#listsOf(deviceId, readers).some((list) =>
      list.get(socket)?.some((filter) => matchesFilter(filter, topic)),
    );
  }

  /** Each socket once, however many of its filters match. @param readers the users who may follow the device */
  ofTopic(deviceId: string, topic: string, readers: readonly number[] = []): WebSocket[] {
    const sockets = new Set<WebSocket>();
    for (const list of this.#listsOf(deviceId, readers)) {
      for (const [socket, filters] of list) {
        if (filters.some((filter) => matchesFilter(filter, topic))) sockets.add(socket);
      }
    }
    return [...sockets];
  }

  #listsOf(deviceId: string, readers: readonly number[]): Map<WebSocket, string[]>[] {
    const lists = [this.#byDevice.get(deviceId), ...readers.map((userId) => this.#fleetsByUser.get(userId))];
    return lists.filter((list) => list !== undefined);
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

function addTo<Key>(lists: FilterLists<Key>, key: Key, socket: WebSocket, filters: string[]): void {
  const list = lists.get(key) ?? new Map<WebSocket, string[]>();
  lists.set(key, list.set(socket, filters));
}

function removeFrom<Key>(lists: FilterLists<Key>, key: Key, socket: WebSocket): void {
  const list = lists.get(key);
  list?.delete(socket);
  if (list?.size === 0) lists.delete(key);
}
