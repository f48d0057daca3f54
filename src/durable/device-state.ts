// What a DeviceSession holds in memory and in storage, and the one way to change it. Decides nothing.
import { DeviceStorage, initialLive, type DeviceRecord, type LiveState } from './device-storage.ts';

export class DeviceState {
  readonly storage: DeviceStorage;
  #loaded: { record: DeviceRecord; live: LiveState } | undefined;

  constructor(storage: DurableObjectStorage) {
    this.storage = new DeviceStorage(storage);
    if (this.storage.open()) this.#loaded = { record: this.storage.readRecord(), live: this.storage.readLive() };
  }

  get isProvisioned(): boolean {
    return this.#loaded !== undefined;
  }

  /** @throws Error before provisioning: callers ask `isProvisioned` first. */
  get record(): DeviceRecord {
    return this.#require().record;
  }

  get live(): LiveState {
    return this.#require().live;
  }

  create(record: DeviceRecord): void {
    this.storage.create();
    this.storage.writeRecord(record);
    this.storage.writeLive(initialLive);
    this.#loaded = { record, live: initialLive };
  }

  changeRecord(change: Partial<DeviceRecord>): void {
    const loaded = this.#require();
    loaded.record = { ...loaded.record, ...change };
    this.storage.writeRecord(loaded.record);
  }

  /** Changes memory alone: lost with the object, so only for what may be lost or is saved by a later change. */
  touch(change: Partial<LiveState>): void {
    const loaded = this.#require();
    loaded.live = { ...loaded.live, ...change };
  }

  /** Changes memory and storage: one row, all pending touches included. */
  save(change: Partial<LiveState> = {}): void {
    this.touch(change);
    this.storage.writeLive(this.live);
  }

  forget(): void {
    this.#loaded = undefined;
  }

  #require(): { record: DeviceRecord; live: LiveState } {
    if (this.#loaded === undefined) throw new Error('device session used before provisioning');
    return this.#loaded;
  }
}
