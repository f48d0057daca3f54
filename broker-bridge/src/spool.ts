// The durable queue between the broker and the Worker: a message is acknowledged only when it lies here, and leaves
// only when the Worker has answered for it. It keeps the order of arrival and drops nothing; when it is full,
// messages wait in memory, unacknowledged. It must not know what a message means.
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { describeError, type Log } from './log.ts';
import type { SpooledDelivery } from './redeliveries.ts';
import { countRecordBytes, type SpoolRecord } from './spool-record.ts';
import { nameSpool, recoverSegments } from './spool-recovery.ts';
import { Segment } from './spool-segment.ts';

export type SpooledMessage = Omit<SpoolRecord, 'seq'>;
/** `segment` is the spool's own business: where the item lies, and null once it is done. */
export type SpoolItem = SpoolRecord & { spoolId: string; segment: Segment | null };

type Pending = { message: SpooledMessage | null; bytes: number; onCommitted: () => void };

const maxGroupBytes = 1024 * 1024;
/** Messages that wait in memory for the disk, before the bridge stops reading from the broker. */
const maxPendingBytes = 16 * 1024 * 1024;
/** What the reader is given at most, and the mark below which more is read from the disk. */
const maxHandedOut = { records: 20_000, bytes: 32 * 1024 * 1024 };
const diskRetryMs = 1000;
const gatherMs = 2;

export class Spool {
  readonly #dir: string;
  readonly #maxBytes: number;
  readonly #segmentBytes: number;
  readonly #log: Log;
  readonly #segments: Segment[];
  readonly #spoolId: string;
  #nextSeq: number;
  #nextNumber: number;
  #current: Segment | null = null;
  #pending: Pending[] = [];
  #pendingBytes = 0;
  #waitingForMemory: (() => void)[] = [];
  #commit: Promise<void> = Promise.resolve();
  #isCommitting = false;
  #hasDoneSinceFull = false;
  #load: Promise<void> | null = null;
  #reclaim: Promise<void> | null = null;
  #handedOut = { records: 0, bytes: 0 };
  #deliver: ((items: SpoolItem[]) => void) | null = null;
  #isFull = false;
  #isClosed = false;
  #damagedRecords: number;

  private constructor(options: SpoolOptions, recovered: Awaited<ReturnType<typeof recoverSegments>>) {
    this.#dir = options.dir;
    this.#maxBytes = options.maxBytes;
    this.#segmentBytes = Math.min(64 * 1024 * 1024, Math.max(16 * 1024, options.maxBytes / 128));
    this.#log = options.log;
    this.#segments = recovered.segments;
    this.#damagedRecords = recovered.damagedRecords;
    this.#nextNumber = recovered.nextNumber;
    this.#spoolId = recovered.continues?.spoolId ?? nameSpool(options.bridgeId);
    this.#nextSeq = recovered.continues?.nextSeq ?? 1;
  }

  /** `recent` are the last messages written before this start, for telling redeliveries. */
  static async open(options: SpoolOptions): Promise<{ spool: Spool; recent: SpooledDelivery[] }> {
    const recovered = await recoverSegments(options.dir, options.bridgeId, options.log);
    const spool = new Spool(options, recovered);
    options.log.info('spool opened', {
      spoolId: spool.#spoolId,
      nextSeq: spool.#nextSeq,
      depth: spool.depth,
      bytes: spool.diskBytes,
      damagedRecords: spool.#damagedRecords,
    });
    return { spool, recent: recovered.recent };
  }

  /** Messages on the disk that the Worker has not answered for. */
  get depth(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.liveRecords, 0);
  }

  get diskBytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.sizeBytes, 0);
  }

  /** Messages from the broker that are not on the disk yet, and so not acknowledged. */
  get pendingCount(): number {
    return this.#pending.length;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  get damagedRecords(): number {
    return this.#damagedRecords;
  }

  /** Hands out every message not done, oldest first, and then new ones as they reach the disk. */
  start(deliver: (items: SpoolItem[]) => void): void {
    this.#deliver = deliver;
    this.#loadMore();
  }

  /** `onCommitted` is called, in the order of the calls, when the message would survive a power cut. */
  append(message: SpooledMessage, onCommitted: () => void): void {
    this.#enqueue({ message, bytes: countRecordBytes(message.topic, message.payload), onCommitted });
  }

  /** Calls back when everything appended so far is committed. */
  afterPending(onReached: () => void): void {
    this.#enqueue({ message: null, bytes: 0, onCommitted: onReached });
  }

  /** Calls back at once, or, when too much waits for the disk, once there is room in memory again. */
  whenRoomInMemory(proceed: () => void): void {
    if (this.#pendingBytes < maxPendingBytes) proceed();
    else this.#waitingForMemory.push(proceed);
  }

  /** The Worker has answered for it, or it lies in the dead letters. */
  markDone(item: SpoolItem): void {
    const { segment } = item;
    if (segment === null) return;
    item.segment = null;
    segment.markDone(item);
    this.#handedOut.records -= 1;
    this.#handedOut.bytes -= item.payload.length;
    this.#hasDoneSinceFull = true;
    if (segment.liveRecords === 0 || this.#isFull) this.#reclaimSpace();
    this.#loadMore();
  }

  /** Resolves when all that waits is on the disk, or cannot get there within `maxMs`. */
  async flush(maxMs: number): Promise<void> {
    await Promise.race([this.#commit, wait(maxMs, undefined, { ref: false })]);
  }

  /** Writes what waits, unless the disk refuses, and closes the files. Nothing may be appended afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#commit;
    await this.#reclaim;
    await this.#load;
    for (const segment of this.#segments) await segment.close();
  }

  #enqueue(pending: Pending): void {
    if (this.#isClosed) return;
    this.#pending.push(pending);
    this.#pendingBytes += pending.bytes;
    this.#startCommit();
  }

  #startCommit(): void {
    if (!this.#isCommitting && this.#pending.length > 0) this.#commit = this.#commitPending();
  }

  async #commitPending(): Promise<void> {
    this.#isCommitting = true;
    // One turn of the loop gathers all messages of one read from the broker into one flush. When messages keep coming
    // they gather for longer, because a flush costs the same for many as for one.
    for (let gathered = nextTurn(); this.#pending.length > 0; gathered = wait(gatherMs)) {
      await gathered;
      const flushed = await this.#flushGroup();
      if (flushed === 'committed') continue;
      if (flushed === 'full' && !this.#hasDoneSinceFull) break;
      if (flushed === 'failed') {
        if (this.#isClosed) break;
        await wait(diskRetryMs);
      }
    }
    this.#isCommitting = false;
  }

  async #flushGroup(): Promise<'committed' | 'full' | 'failed'> {
    let segment: Segment;
    let group: Pending[];
    let sizeBefore: number;
    const records: SpoolRecord[] = [];
    try {
      segment = await this.#writableSegment();
      group = this.#takeGroup();
      if (group.length === 0) return (await this.#makeRoom(segment)) ? 'committed' : 'full';
      for (const { message } of group) {
        if (message !== null) records.push({ ...message, seq: this.#nextSeq + records.length });
      }
      sizeBefore = segment.sizeBytes;
      if (records.length > 0) await segment.append(records);
    } catch (error) {
      this.#log.error('the disk refuses the spool: messages wait unacknowledged', {
        alarm: true,
        cause: describeError(error),
      });
      // After a failed flush the kernel may hold bad pages as clean: the group goes into a fresh file.
      await this.#current?.seal().catch(() => undefined);
      this.#current = null;
      return 'failed';
    }
    // Outside the try: an error thrown by a receiver is not the disk's.
    this.#settleGroup(group, records);
    const isReaderUpToDate =
      this.#load === null &&
      this.#segments.every((one) => one.loadedBytes === (one === segment ? sizeBefore : one.sizeBytes));
    if (isReaderUpToDate && this.#deliver !== null && this.#hasRoomForReader()) {
      segment.skipLoading(records.length);
      this.#handOut(segment, records);
    } else this.#loadMore();
    return 'committed';
  }

  #settleGroup(group: Pending[], records: SpoolRecord[]): void {
    this.#nextSeq += records.length;
    this.#pending.splice(0, group.length);
    for (const { bytes } of group) this.#pendingBytes -= bytes;
    for (const { onCommitted } of group) onCommitted();
    if (this.#pendingBytes < maxPendingBytes) {
      for (const proceed of this.#waitingForMemory.splice(0)) proceed();
    }
  }

  #takeGroup(): Pending[] {
    const roomBytes = this.#maxBytes - this.diskBytes;
    const isEmpty = this.depth === 0;
    let bytes = 0;
    let count = 0;
    for (const pending of this.#pending) {
      // An empty spool takes even a message that is larger than it may be: it would wait for ever.
      const hasRoom = bytes + pending.bytes <= roomBytes || (count === 0 && isEmpty);
      if (!hasRoom || (count > 0 && bytes + pending.bytes > maxGroupBytes)) break;
      bytes += pending.bytes;
      count += 1;
    }
    if (count > 0 && this.#isFull) {
      this.#isFull = false;
      this.#log.info('the spool has room again');
    }
    return this.#pending.slice(0, count);
  }

  /** False when nothing can be given back now: then the next message that is done starts the commit again. */
  async #makeRoom(segment: Segment): Promise<boolean> {
    const before = this.diskBytes;
    this.#hasDoneSinceFull = false;
    if (segment.sizeBytes > 0 && isMostlyDone(segment)) await this.#rotate();
    await this.#reclaim;
    this.#reclaimSpace();
    await this.#reclaim;
    if (this.diskBytes < before) return true;
    if (!this.#isFull) {
      this.#isFull = true;
      this.#log.error('the spool is full: messages wait unacknowledged at the broker', {
        alarm: true,
        bytes: before,
        depth: this.depth,
      });
    }
    return false;
  }

  async #writableSegment(): Promise<Segment> {
    const current = this.#current;
    if (current !== null && current.sizeBytes < this.#segmentBytes) return current;
    return this.#rotate();
  }

  /** The newest file carries the name and the number of the spool over a restart: it is made before others go. */
  async #rotate(): Promise<Segment> {
    const name = { number: this.#nextNumber, firstSeq: this.#nextSeq, spoolId: this.#spoolId };
    this.#nextNumber += 1;
    const segment = await Segment.create(this.#dir, name);
    const sealed = this.#current;
    this.#segments.push(segment);
    this.#current = segment;
    await sealed?.seal();
    this.#reclaimSpace();
    return segment;
  }

  #hasRoomForReader(): boolean {
    return this.#handedOut.records < maxHandedOut.records && this.#handedOut.bytes < maxHandedOut.bytes;
  }

  #loadMore(): void {
    if (this.#load !== null || this.#deliver === null || this.#isClosed) return;
    if (this.#handedOut.records * 2 > maxHandedOut.records || this.#handedOut.bytes * 2 > maxHandedOut.bytes) return;
    if (this.#segments.every((segment) => segment.isLoaded)) return;
    this.#load = this.#loadFromDisk()
      .catch(async (error: unknown) => {
        this.#log.error('the spool cannot be read', { alarm: true, cause: describeError(error) });
        await wait(diskRetryMs);
      })
      .finally(() => {
        this.#load = null;
        this.#loadMore();
      });
  }

  async #loadFromDisk(): Promise<void> {
    const segment = this.#segments.find((one) => !one.isLoaded);
    if (segment === undefined) return;
    const records = await segment.load();
    this.#handOut(segment, records);
    const lost = segment.writeOffUnreadable();
    if (lost > 0) {
      this.#damagedRecords += lost;
      this.#log.error('spooled messages can no longer be read', { alarm: true, records: lost });
    }
    if (segment.liveRecords === 0) this.#reclaimSpace();
  }

  #handOut(segment: Segment, records: SpoolRecord[]): void {
    if (records.length === 0) return;
    const items = records.map((record) => ({ ...record, spoolId: segment.spoolId, segment }));
    this.#handedOut.records += items.length;
    for (const { payload } of items) this.#handedOut.bytes += payload.length;
    this.#deliver?.(items);
  }

  #reclaimSpace(): void {
    if (this.#isClosed) return;
    this.#reclaim ??= this.#removeAndCompact()
      .catch((error: unknown) => this.#log.error('spool files cannot be removed', { cause: describeError(error) }))
      .finally(() => {
        this.#reclaim = null;
        if (this.#isFull) this.#startCommit();
      });
  }

  async #removeAndCompact(): Promise<void> {
    for (const segment of [...this.#segments]) {
      if (segment === this.#current || segment === this.#segments.at(-1) || !segment.isLoaded) continue;
      if (segment.liveRecords === 0) {
        this.#segments.splice(this.#segments.indexOf(segment), 1);
        await segment.remove();
      } else if (this.diskBytes * 2 > this.#maxBytes && isMostlyDone(segment)) {
        // Without this one device that cannot be served would keep every file, and fill the spool.
        await segment.compact();
      }
    }
  }
}

export type SpoolOptions = { dir: string; maxBytes: number; bridgeId: string; log: Log };

function isMostlyDone(segment: Segment): boolean {
  return segment.liveBytes * 4 < segment.sizeBytes;
}
