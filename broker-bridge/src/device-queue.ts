// Messages for the Worker, arranged so that one device's never overtake each other: a device has at most one batch
// under way, and what was not taken stays at the front of its line. It knows nothing of HTTP or disks.
import { BackOff } from './back-off.ts';

/** `device` names who sent it. */
export type Queued = { device: string; receivedAtMs: number; bytes: number };

export type BatchLimits = { maxItems: number; maxDevices: number; maxBytes: number };

type Line<T> = { items: T[]; isUnderWay: boolean; backOff: BackOff | null };

export class DeviceQueue<T extends Queued> {
  readonly #onReady: () => void;
  readonly #lines = new Map<string, Line<T>>();
  /** Devices with something to send and nothing under way, in the order in which they got there. */
  readonly #ready = new Set<string>();
  #readyItems = 0;
  #readyBytes = 0;
  #size = 0;

  /** `onReady` is called when a device may be served again after a pause of its own. */
  constructor(onReady: () => void) {
    this.#onReady = onReady;
  }

  /** Everything not settled, under way or not. */
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

  oldestReceivedAtMs(): number | null {
    let oldest: number | null = null;
    for (const { items } of this.#lines.values()) {
      const first = items[0];
      if (first !== undefined && (oldest === null || first.receivedAtMs < oldest)) oldest = first.receivedAtMs;
    }
    return oldest;
  }

  add(item: T): void {
    const { device } = item;
    let line = this.#lines.get(device);
    if (line === undefined) {
      line = { items: [], isUnderWay: false, backOff: null };
      this.#lines.set(device, line);
      this.#ready.add(device);
    }
    line.items.push(item);
    this.#size += 1;
    if (this.#ready.has(device)) this.#countReady([item], 1);
  }

  /** A batch; its devices are under way until it is settled. At least one item, whatever its size. */
  takeBatch({ maxItems, maxDevices, maxBytes }: BatchLimits): T[] {
    const batch: T[] = [];
    let bytes = 0;
    let devices = 0;
    for (const device of this.#ready) {
      const line = this.#lines.get(device);
      if (line === undefined) continue;
      let taken = 0;
      for (const item of line.items) {
        if (batch.length > 0 && bytes + item.bytes > maxBytes) break;
        if (batch.length === maxItems) break;
        batch.push(item);
        bytes += item.bytes;
        taken += 1;
      }
      if (taken > 0) {
        devices += 1;
        line.isUnderWay = true;
        this.#ready.delete(device);
        this.#countReady(line.items, -1);
      }
      if (batch.length === maxItems || devices === maxDevices || bytes >= maxBytes) break;
    }
    return batch;
  }

  /** Ends a batch. The devices of items in `kept` pause before these go out again, unless `mayGoAtOnce`. */
  settle(batch: T[], kept: ReadonlySet<T>, mayGoAtOnce: boolean): void {
    for (const [device, items] of Map.groupBy(batch, ({ device }) => device)) {
      const line = this.#lines.get(device);
      if (line === undefined) continue;
      const left = items.filter((item) => kept.has(item));
      this.#size -= items.length - left.length;
      line.items.splice(0, items.length, ...left);
      line.isUnderWay = false;
      if (left.length === 0) line.backOff = null;
      if (line.items.length === 0) this.#lines.delete(device);
      else if (left.length === 0 || mayGoAtOnce) this.#offer(device, line);
      else {
        line.backOff ??= new BackOff({ baseMs: 200, capMs: 10_000 });
        const offerAgain = (): void => {
          this.#offer(device, line);
          this.#onReady();
        };
        setTimeout(offerAgain, line.backOff.nextDelayMs()).unref();
      }
    }
  }

  #offer(device: string, line: Line<T>): void {
    this.#ready.add(device);
    this.#countReady(line.items, 1);
  }

  #countReady(items: T[], sign: 1 | -1): void {
    this.#readyItems += sign * items.length;
    for (const item of items) this.#readyBytes += sign * item.bytes;
  }
}

/** The first three levels of a topic after its leading slash, `/sys/{productKey}/{deviceId}`: who sent it. */
export function nameDevice(topic: string): string {
  let end = 0;
  for (let level = 0; level < 3 && end !== -1; level += 1) end = topic.indexOf('/', end + 1);
  return end === -1 ? topic : topic.slice(0, end);
}
