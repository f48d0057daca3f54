// What a DeviceSession holds in memory and in storage, and the one way to change it. Decides nothing.
import { DeviceStorage, initialLive, type DeviceRecord, type LiveState } from './device-storage.ts';

export class DeviceState {
  readonly storage: DeviceStorage;
  readonly #ctx: DurableObjectState;
  #loaded: { record: DeviceRecord; live: LiveState } | undefined;
  #isDeleted: boolean;
  #isUnsaved = false;
  #savedLifeAtMs = 0;
  #afterFlush: (() => Promise<void>)[] = [];

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.storage = new DeviceStorage(ctx.storage);
    const found = this.storage.open();
    this.#isDeleted = found === 'deleted';
    if (found !== 'provisioned') return;
    this.#loaded = { record: this.storage.readRecord(), live: this.storage.readLive() };
    this.#savedLifeAtMs = this.live.presence.lastOnlineAtMs ?? 0;
  }

  get isProvisioned(): boolean {
    return this.#loaded !== undefined;
  }

  /** It was provisioned once and never will be again. */
  get isDeleted(): boolean {
    return this.#isDeleted;
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

  /** Changes memory; `flush` makes it last. */
  change(change: Partial<LiveState>): void {
    this.touch(change);
    this.#isUnsaved = true;
  }

  /** Makes the last sign of life last, unless storage is behind it by less than this. */
  keepLife(resolutionMs: number): void {
    const { lastOnlineAtMs } = this.live.presence;
    if ((lastOnlineAtMs ?? 0) - this.#savedLifeAtMs >= resolutionMs) this.#isUnsaved = true;
  }

  /** Work for others, started once what it tells of is written: a crash must not leave them knowing more. */
  afterFlush(work: () => Promise<void>): void {
    this.#afterFlush.push(work);
  }

  /** Writes what changed, touches included, as one row. To be called before anything is awaited. */
  flush(): void {
    if (this.#isUnsaved && this.#loaded !== undefined) {
      this.#isUnsaved = false;
      this.#savedLifeAtMs = this.live.presence.lastOnlineAtMs ?? 0;
      this.storage.writeLive(this.live);
    }
    for (const work of this.#afterFlush.splice(0)) this.#ctx.waitUntil(work());
  }

  /** Forgets the device, all but that there was one. */
  bury(): void {
    this.storage.bury();
    this.#loaded = undefined;
    this.#isDeleted = true;
  }

  #require(): { record: DeviceRecord; live: LiveState } {
    if (this.#loaded === undefined) throw new Error('device session used before provisioning');
    return this.#loaded;
  }
}
