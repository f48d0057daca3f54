// Messages for the Worker, in order for each device: a device has at most one batch under way, and what was not taken stays
// at the front of its line. Devices share a batch fairly. Devices that were not served lately wait in a queue of their own:
// of most of their messages only the numbers are in memory. It knows nothing of HTTP or disks.
import { createBackOff, type BackOff } from '../../../node-service/back-off.ts';

export type Queued = { device: string; receivedAtMs: number; bytes: number; item: { seq: number } };

export type BatchLimits = { maxItems: number; maxDevices: number; maxBytes: number };

/** `held`: the Worker did not take the device's last messages. They must not delay the batches of the others. */
export type QueueName = 'usual' | 'held';

/** The part of a batch that one device takes at most while other devices wait. */
const maxShare = 0.2;

/** Messages of a held device that stay in memory: a device that hangs for days must leave room for the others. */
const maxHeldItems = 10;
const fetchAtOnce = 1000;

type Line<T> = {
  items: T[];
  backOff: BackOff | null;
  /** The numbers of the messages behind `items`, which are not in memory. */
  later: number[];
  isFetching: boolean;
};

type QueueEvents<T> = {
  /** A device may be served again after its back-off. */
  onReady: () => void;
  onPark: (items: T[]) => void;
  /** The messages of these numbers are needed: hand them to `addFetched`. */
  onFetch: (device: string, seqs: number[]) => void;
};

export class DeviceQueue<T extends Queued> {
  size = 0;
  readonly #events: QueueEvents<T>;
  readonly #lines = new Map<string, Line<T>>();
  /** Devices with something to send and nothing under way, longest waiting first. */
  readonly #ready: Record<QueueName, Map<string, Line<T>>> = { usual: new Map(), held: new Map() };

  constructor(events: QueueEvents<T>) {
    this.#events = events;
  }

  isReady(name: QueueName): boolean {
    return this.#ready[name].size > 0;
  }

  /** Whether the usual devices have enough for a whole batch. */
  fills({ maxItems, maxDevices, maxBytes }: BatchLimits): boolean {
    const { usual } = this.#ready;
    let [items, bytes] = [0, 0];
    for (const line of usual.values()) {
      for (const item of line.items) {
        bytes += item.bytes;
        items += 1;
        if (items >= maxItems || bytes >= maxBytes) return true;
      }
    }
    return usual.size >= maxDevices;
  }

  oldestReceivedAtMs(): number {
    let oldest = Infinity;
    for (const { items } of this.#lines.values()) oldest = Math.min(oldest, items[0]?.receivedAtMs ?? Infinity);
    return oldest;
  }

  /** Whether a message of the device would not be kept in memory now: see `addLater`. */
  mustWait(device: string): boolean {
    const line = this.#lines.get(device);
    if (line === undefined) return false;
    const isFull = line.backOff !== null && line.items.length >= maxHeldItems;
    return isFull || line.isFetching || line.later.length > 0;
  }

  addLater(device: string, seq: number): void {
    this.#lines.get(device)?.later.push(seq);
    this.size += 1;
  }

  addFetched(device: string, items: T[]): void {
    const line = this.#lines.get(device);
    if (line === undefined) return;
    line.isFetching = false;
    line.items.push(...items);
    this.#makeReady(device, line);
    this.#events.onReady();
  }

  add(item: T): void {
    const { device } = item;
    let line = this.#lines.get(device);
    if (line === undefined) {
      line = { items: [], backOff: null, later: [], isFetching: false };
      this.#lines.set(device, line);
      this.#ready.usual.set(device, line);
    }
    line.items.push(item);
    this.size += 1;
  }

  /**
   * At least one item, whatever its size. The devices of the batch are under way until `finish`.
   * @param room how many batches may still be sent, with this one: busy devices are spread over them, because what a device
   *   sends meanwhile waits for its batch
   */
  takeBatch(name: QueueName, { maxItems, maxDevices, maxBytes }: BatchLimits, room = 1): T[] {
    const ready = this.#ready[name];
    const shareItems = Math.ceil(maxItems * maxShare);
    const isBusy = ({ items }: Line<T>): boolean => items.length > shareItems;
    // If more devices are ready than a batch holds, the next batches have enough of them.
    const isSpread = ready.size <= maxDevices;
    let busyAllowed = isSpread ? Math.ceil([...ready.values()].filter(isBusy).length / room) : Infinity;
    const devices: [string, Line<T>][] = [];
    for (const entry of ready) {
      if (isBusy(entry[1]) && --busyAllowed < 0) continue;
      if (devices.push(entry) === maxDevices) break;
    }
    const batch: T[] = [];
    let bytes = 0;
    const taken = devices.map(() => 0);
    const take = (index: number, share: number): void => {
      const items = devices[index]?.[1].items ?? [];
      for (let at = taken[index] ?? 0; at < Math.min(items.length, share); at += 1) {
        const item = items[at];
        const isFull = batch.length === maxItems || (batch.length > 0 && bytes + (item?.bytes ?? 0) > maxBytes);
        if (item === undefined || isFull) return;
        batch.push(item);
        bytes += item.bytes;
        taken[index] = at + 1;
      }
    };
    // First a share each, so that a busy device leaves room for the next ones; then what there is room for.
    for (const share of [shareItems, Infinity]) for (const index of devices.keys()) take(index, share);
    for (const [index, [device]] of devices.entries()) if (taken[index] !== 0) ready.delete(device);
    return batch;
  }

  /** Ends a batch. The items of `unsent` stay; with true, their device backs off first and is `held` from then on. */
  finish(batch: T[], unsent: ReadonlyMap<T, boolean>): void {
    for (const [device, items] of Map.groupBy(batch, (item) => item.device)) {
      const line = this.#lines.get(device);
      if (line === undefined) continue;
      const left = items.filter((item) => unsent.has(item));
      this.size -= items.length - left.length;
      line.items.splice(0, items.length, ...left);
      if (left.length < items.length) line.backOff = null;
      if (line.items.length === 0 && line.later.length > 0) {
        line.isFetching = true;
        this.#events.onFetch(device, line.later.splice(0, fetchAtOnce));
      } else if (line.items.length === 0) this.#lines.delete(device);
      else if (left.some((item) => unsent.get(item) === true)) {
        line.backOff ??= createBackOff({ baseMs: 200, capMs: 10_000 });
        this.#park(line);
        const retry = (): void => {
          this.#makeReady(device, line);
          this.#events.onReady();
        };
        setTimeout(retry, line.backOff.nextDelayMs()).unref();
      } else this.#makeReady(device, line);
    }
  }

  #park(line: Line<T>): void {
    const parked = line.items.splice(maxHeldItems);
    if (parked.length === 0) return;
    line.later = [...parked.map(({ item }) => item.seq), ...line.later];
    this.#events.onPark(parked);
  }

  #makeReady(device: string, line: Line<T>): void {
    this.#ready[line.backOff === null ? 'usual' : 'held'].set(device, line);
  }
}
