// Messages for the Worker, in order for each device: a device has at most one batch under way, and what was not taken
// stays at the front of its line. It knows nothing of HTTP or disks.
import { BackOff } from './back-off.ts';

export type Queued = { device: string; receivedAtMs: number; bytes: number };

export type BatchLimits = { maxItems: number; maxDevices: number; maxBytes: number };

type Line<T> = { items: T[]; backOff: BackOff | null };

export class DeviceQueue<T extends Queued> {
  readonly #onReady: () => void;
  readonly #lines = new Map<string, Line<T>>();
  /** Devices with something to send and nothing under way, longest waiting first. */
  readonly #ready = new Set<string>();
  #readyItems = 0;
  #readyBytes = 0;
  #size = 0;

  /** `onReady` is called when a device may be served again after its back-off. */
  constructor(onReady: () => void) {
    this.#onReady = onReady;
  }

  /** All items, under way or not. */
  get size(): number {
    return this.#size;
  }

  get readyItems(): number {
    return this.#readyItems;
  }

  /** Whether what is ready makes a full batch. */
  fills({ maxItems, maxDevices, maxBytes }: BatchLimits): boolean {
    return this.#readyItems >= maxItems || this.#ready.size >= maxDevices || this.#readyBytes >= maxBytes;
  }

  /** Infinity where there is none. */
  oldestReceivedAtMs(): number {
    let oldest = Infinity;
    for (const { items } of this.#lines.values()) oldest = Math.min(oldest, items[0]?.receivedAtMs ?? Infinity);
    return oldest;
  }

  add(item: T): void {
    const { device } = item;
    let line = this.#lines.get(device);
    if (line === undefined) {
      line = { items: [], backOff: null };
      this.#lines.set(device, line);
      this.#ready.add(device);
    }
    line.items.push(item);
    this.#size += 1;
    if (this.#ready.has(device)) this.#countReady([item], 1);
  }

  /** At least one item, whatever its size. The devices of the batch are under way until `finish`. */
  takeBatch({ maxItems, maxDevices, maxBytes }: BatchLimits): T[] {
    const batch: T[] = [];
    let bytes = 0;
    let devices = 0;
    for (const device of this.#ready) {
      const items = this.#lines.get(device)?.items ?? [];
      const before = batch.length;
      for (const item of items) {
        if (batch.length === maxItems || (batch.length > 0 && bytes + item.bytes > maxBytes)) break;
        batch.push(item);
        bytes += item.bytes;
      }
      if (batch.length > before) {
        devices += 1;
        this.#ready.delete(device);
        this.#countReady(items, -1);
      }
      if (batch.length === maxItems || devices === maxDevices || bytes >= maxBytes) break;
    }
    return batch;
  }

  /** Ends a batch. Items of `unsent` stay; their devices back off first, unless `isPaused`: then all sending does. */
  finish(batch: T[], unsent: ReadonlySet<T>, isPaused: boolean): void {
    for (const [device, items] of Map.groupBy(batch, (item) => item.device)) {
      const line = this.#lines.get(device);
      if (line === undefined) continue;
      const left = items.filter((item) => unsent.has(item));
      this.#size -= items.length - left.length;
      line.items.splice(0, items.length, ...left);
      if (left.length === 0) line.backOff = null;
      if (line.items.length === 0) this.#lines.delete(device);
      else if (left.length === 0 || isPaused) this.#makeReady(device, line);
      else {
        line.backOff ??= new BackOff({ baseMs: 200, capMs: 10_000 });
        const retry = (): void => {
          this.#makeReady(device, line);
          this.#onReady();
        };
        setTimeout(retry, line.backOff.nextDelayMs()).unref();
      }
    }
  }

  #makeReady(device: string, line: Line<T>): void {
    this.#ready.add(device);
    this.#countReady(line.items, 1);
  }

  #countReady(items: T[], sign: 1 | -1): void {
    this.#readyItems += sign * items.length;
    for (const item of items) this.#readyBytes += sign * item.bytes;
  }
}
