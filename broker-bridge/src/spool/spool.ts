// The durable queue between the broker and the Worker: a message is acknowledged only when it lies here, and leaves
// only when the Worker has answered for it. It keeps the order of arrival and drops nothing; when it is full, messages
// wait in memory, unacknowledged. It must not know what a message means.
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { Delivery } from '../intake/deliveries.ts';
import { describeError, type Log } from '../../../node-service/log.ts';
import { itemOverheadBytes, type OpenedSpool, type SpoolGroup, type SpoolItem } from './database.ts';
import { startSpoolThread, type SpoolThread } from './thread.ts';

export type SpoolOptions = { dir: string; maxBytes: number; bridgeId: string; log: Log; lockWaitMs?: number };
export type SpooledMessage = Omit<SpoolItem, 'seq'>;
type Pending = { item: SpoolItem; delivery: Delivery | null; onCommitted: () => void };

const maxGroupBytes = 1024 * 1024;
/** Messages that wait in memory for the disk, before the bridge stops reading from the broker. */
const maxPendingBytes = 16 * 1024 * 1024;
/** What the reader is given at most; below half of it more is read from the disk, a part at a time. */
const maxHandedOut = { items: 20_000, bytes: 32 * 1024 * 1024 };
const readAtOnce = { items: 2000, bytes: 4 * 1024 * 1024 };
const diskRetryMs = 1000;
/** While messages keep coming they gather this long, because a flush costs the same for many as for one. */
const gatherMs = 2;
/** Finished messages are deleted with the next group, or after this time if none comes. */
const deleteAfterMs = 200;
/** Passed over at each start: after a restore, a new message must not get a number that the Worker has seen. */
const skippedSeqs = 1_000_000;

export class Spool {
  readonly spoolId: string;
  readonly lastReceivedAtMs: number;
  /** Messages on the disk that the Worker has not answered for, and their bytes. */
  depth: number;
  bytes: number;
  /** Since when the disk refuses what is to be written; null while it does not. */
  refusedSinceMs: number | null = null;
  isUnreadable = false;
  readonly #options: SpoolOptions;
  readonly #thread: SpoolThread;
  #nextSeq: number;
  #lacksRoom = false;
  #pending: Pending[] = [];
  #pendingBytes = 0;
  #waitingForMemory: (() => void)[] = [];
  #spooledSession = 0;
  #commit: Promise<void> | null = null;
  #doneSeqs: number[] = [];
  #deleteTimer: NodeJS.Timeout | undefined;
  #deliver: ((items: SpoolItem[]) => SpoolItem[]) | null = null;
  #handedOut = { items: 0, bytes: 0 };
  /** Items on the disk that were not handed out: all those after `#lastHandedOut`. */
  #unread: number;
  #lastHandedOut = 0;
  #load: Promise<void> | null = null;
  #isClosed = false;

  private constructor(options: SpoolOptions, thread: SpoolThread, state: OpenedSpool) {
    this.spoolId = state.spoolId;
    this.lastReceivedAtMs = state.lastReceivedAtMs;
    this.#options = options;
    this.#thread = thread;
    this.#nextSeq = state.lastSeq === 0 ? 1 : state.lastSeq + skippedSeqs;
    this.depth = state.depth;
    this.#unread = state.depth;
    this.bytes = state.bytes;
  }

  /** @throws Error that says what to do if the database cannot be opened */
  static async open(options: SpoolOptions): Promise<{ spool: Spool; deliveries: Float64Array }> {
    const { dir, bridgeId, lockWaitMs = 0 } = options;
    const { state, ...thread } = await startSpoolThread({ dir, bridgeId, lockWaitMs });
    const spool = new Spool(options, thread, state);
    const { spoolId, depth, bytes } = state;
    options.log.info('spool opened', { spoolId, nextSeq: spool.#nextSeq, depth, bytes });
    return { spool, deliveries: state.deliveries };
  }

  /** Messages from the broker that are not on the disk yet, and so not acknowledged. */
  get pendingCount(): number {
    return this.#pending.length;
  }

  get isFull(): boolean {
    return this.#lacksRoom || this.refusedSinceMs !== null;
  }

  /**
   * Hands out every message that is not done, oldest first, and then new ones as they reach the disk. `deliver` answers
   * those that it does not keep in memory, and will `fetch`.
   */
  start(deliver: (items: SpoolItem[]) => SpoolItem[]): void {
    this.#deliver = deliver;
    this.#loadMore();
  }

  /** Answers its `seq`. `onCommitted` is called, in the order of the calls, when it would survive a power cut. */
  append(message: SpooledMessage, delivery: Delivery | null, onCommitted: () => void): number {
    const item = { ...message, seq: this.#nextSeq };
    this.#nextSeq += 1;
    if (!this.#isClosed) {
      this.#pending.push({ item, delivery, onCommitted });
      this.#pendingBytes += countBytes(item);
      this.#startCommit();
    }
    return item.seq;
  }

  /** Calls back when all that was appended so far would survive a power cut. */
  whenCommitted(callback: () => void): void {
    const last = this.#pending.at(-1);
    if (last === undefined) callback();
    else {
      const { onCommitted } = last;
      last.onCommitted = () => {
        onCommitted();
        callback();
      };
    }
  }

  /** Calls back at once, or, when too much waits for the disk, once there is room in memory again. */
  whenRoomInMemory(proceed: () => void): void {
    if (this.#pendingBytes < maxPendingBytes) proceed();
    else this.#waitingForMemory.push(proceed);
  }

  /** They were handed out and are not kept in memory now. */
  release(items: SpoolItem[]): void {
    this.#countHandedOut(items, -1);
    this.#loadMore();
  }

  /** Messages that were released, in the order of their numbers; resolves when the disk has them. */
  async fetch(seqs: number[]): Promise<SpoolItem[]> {
    const items = await this.#readUntilDone(() => this.#thread.read('readThese', [seqs]));
    this.#countHandedOut(items, 1);
    return items;
  }

  /** The Worker has answered for it, or it lies in the dead letters. */
  markDone(item: SpoolItem): void {
    this.#doneSeqs.push(item.seq);
    this.depth -= 1;
    this.bytes -= countBytes(item);
    this.#countHandedOut([item], -1);
    if (this.isFull) this.#startCommit();
    else this.#deleteSoon();
    this.#loadMore();
  }

  async flush(maxMs: number): Promise<void> {
    await Promise.race([this.#commit, wait(maxMs, undefined, { ref: false })]);
  }

  /** Writes what waits, unless the disk refuses, and closes the database. Nothing may be appended afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#startCommit();
    await this.#commit;
    clearTimeout(this.#deleteTimer);
    await this.#load;
    await this.#thread.call('close', []);
  }

  #startCommit(): void {
    if (this.#pending.length > 0 || this.#doneSeqs.length > 0) this.#commit ??= this.#commitAll();
  }

  async #commitAll(): Promise<void> {
    // One turn of the loop gathers all messages of one read from the broker into the first group.
    for (let gathered = nextTurn(); ; gathered = wait(gatherMs)) {
      await gathered;
      const group = this.#takeGroup();
      const doneSeqs = this.#doneSeqs.slice();
      if (group.length === 0 && doneSeqs.length === 0) break;
      const session = group.findLast(({ delivery }) => delivery !== null)?.delivery?.session ?? this.#spooledSession;
      try {
        const added = group.length === 0 ? null : groupOf(group, session, session !== this.#spooledSession);
        await this.#thread.call('commit', [added, Float64Array.from(doneSeqs)]);
        this.refusedSinceMs = null;
      } catch (error) {
        this.refusedSinceMs ??= Date.now();
        this.#options.log.error('the disk refuses the spool: messages wait unacknowledged', {
          alarm: true,
          cause: describeError(error),
        });
        if (this.#isClosed) break;
        await wait(diskRetryMs);
        continue;
      }
      this.#spooledSession = session;
      this.#doneSeqs.splice(0, doneSeqs.length);
      this.#noteCommitted(group);
      if (this.#pending.length === 0 && !this.#isClosed) break;
    }
    this.#commit = null;
    clearTimeout(this.#deleteTimer);
    this.#deleteTimer = undefined;
    if (this.#doneSeqs.length > 0) this.#deleteSoon();
  }

  #deleteSoon(): void {
    this.#deleteTimer ??= setTimeout(() => this.#startCommit(), deleteAfterMs).unref();
  }

  #takeGroup(): Pending[] {
    const roomBytes = this.#options.maxBytes - this.bytes;
    let bytes = 0;
    let count = 0;
    for (const { item } of this.#pending) {
      const size = countBytes(item);
      // An empty spool takes even a message that is larger than it may be: it would wait for ever.
      const hasRoom = bytes + size <= roomBytes || (count === 0 && this.depth === 0);
      if (!hasRoom || (count > 0 && bytes + size > maxGroupBytes)) break;
      bytes += size;
      count += 1;
    }
    this.#noteRoom(count === 0 && this.#pending.length > 0);
    return this.#pending.slice(0, count);
  }

  #noteRoom(lacksRoom: boolean): void {
    if (lacksRoom === this.#lacksRoom) return;
    this.#lacksRoom = lacksRoom;
    const fields = { bytes: this.bytes, depth: this.depth };
    const { log } = this.#options;
    if (!lacksRoom) log.info('the spool has room again', fields);
    else log.error('the spool is full: messages wait unacknowledged at the broker', { alarm: true, ...fields });
  }

  #noteCommitted(group: Pending[]): void {
    this.#pending.splice(0, group.length);
    const items = group.map(({ item }) => item);
    const bytes = items.reduce((sum, item) => sum + countBytes(item), 0);
    this.#pendingBytes -= bytes;
    this.bytes += bytes;
    this.depth += items.length;
    this.#unread += items.length;
    const hasRoom = this.#handedOut.items < maxHandedOut.items && this.#handedOut.bytes < maxHandedOut.bytes;
    if (this.#unread === items.length && this.#load === null && hasRoom) this.#handOut(items);
    else this.#loadMore();
    for (const { onCommitted } of group) onCommitted();
    if (this.#pendingBytes < maxPendingBytes) {
      for (const proceed of this.#waitingForMemory.splice(0)) proceed();
    }
  }

  #handOut(items: SpoolItem[]): void {
    const last = items.at(-1);
    if (last === undefined) return;
    const released = this.#deliver?.(items) ?? [];
    this.#countHandedOut(items, 1);
    this.#countHandedOut(released, -1);
    this.#unread -= items.length;
    this.#lastHandedOut = last.seq;
  }

  #countHandedOut(items: SpoolItem[], sign: 1 | -1): void {
    this.#handedOut.items += sign * items.length;
    for (const { payload } of items) this.#handedOut.bytes += sign * payload.length;
  }

  #loadMore(): void {
    if (this.#unread === 0 || this.#deliver === null || this.#isClosed) return;
    if (this.#handedOut.items * 2 > maxHandedOut.items || this.#handedOut.bytes * 2 > maxHandedOut.bytes) return;
    this.#load ??= this.#loadFromDisk();
  }

  async #loadFromDisk(): Promise<void> {
    const items = await this.#readUntilDone(async () => {
      const next = await this.#thread.read('read', [this.#lastHandedOut, readAtOnce.items, readAtOnce.bytes]);
      if (next.length === 0) throw new Error(`${this.#unread} messages are missing`);
      return next;
    });
    this.#handOut(items);
    this.#load = null;
    this.#loadMore();
  }

  /** Tries again while the disk refuses. Answers nothing if the spool is closed meanwhile. */
  async #readUntilDone(read: () => Promise<SpoolItem[]>): Promise<SpoolItem[]> {
    for (;;) {
      try {
        const items = await read();
        this.isUnreadable = false;
        return items;
      } catch (error) {
        this.isUnreadable = true;
        this.#options.log.error('the spool cannot be read', { alarm: true, cause: describeError(error) });
        if (this.#isClosed) return [];
        await wait(diskRetryMs, undefined, { ref: false });
      }
    }
  }
}

function countBytes({ topic, payload }: SpoolItem): number {
  return Buffer.byteLength(topic) + payload.length + itemOverheadBytes;
}

function groupOf(group: Pending[], session: number, forgetsDeliveries: boolean): SpoolGroup {
  const deliveries = group.flatMap(({ item: { seq, redeliveryOf }, delivery }) =>
    delivery?.session === session ? [delivery.packetId, delivery.digest, redeliveryOf ?? seq] : [],
  );
  return { items: group.map(({ item }) => item), deliveries: Float64Array.from(deliveries), forgetsDeliveries };
}
