// The durable queue between the broker and the Worker: a message is acknowledged only when it lies here, and leaves
// only when the Worker has answered for it. It keeps the order of arrival and drops nothing; when it is full, messages
// wait in memory, unacknowledged. It must not know what a message means.
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { Delivery } from '../intake/deliveries.ts';
import { describeError, type Log } from '../../../node-service/log.ts';
import { itemOverheadBytes, type SpoolGroup, type SpoolItem } from './database.ts';
import { startSpoolThread } from './thread.ts';

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

export type Spool = Awaited<ReturnType<typeof openSpool>>['spool'];

/** @throws Error that says what to do if the database cannot be opened */
export async function openSpool({ dir, maxBytes, bridgeId, log, lockWaitMs = 0 }: SpoolOptions) {
  const { state, ...thread } = await startSpoolThread({ dir, bridgeId, lockWaitMs });
  const { spoolId, lastSeq, lastReceivedAtMs, deliveries } = state;
  let nextSeq = lastSeq === 0 ? 1 : lastSeq + skippedSeqs;
  let lacksRoom = false;
  const pending: Pending[] = [];
  let pendingBytes = 0;
  const waitingForMemory: (() => void)[] = [];
  let spooledSession = 0;
  let commit: Promise<void> | null = null;
  const doneSeqs: number[] = [];
  let deleteTimer: NodeJS.Timeout | undefined;
  let reader: ((items: SpoolItem[]) => SpoolItem[]) | null = null;
  const handedOut = { items: 0, bytes: 0 };
  /** Items on the disk that were not handed out: all those after `lastHandedOut`. */
  let unread = state.depth;
  let lastHandedOut = 0;
  let load: Promise<void> | null = null;
  let isClosed = false;
  const spool = {
    spoolId,
    lastReceivedAtMs,
    /** Messages on the disk that the Worker has not answered for, and their bytes. */
    depth: state.depth,
    bytes: state.bytes,
    /** Since when the disk refuses what is to be written; null while it does not. */
    refusedSinceMs: null as number | null,
    isUnreadable: false,
    /** Messages from the broker that are not on the disk yet, and so not acknowledged. */
    pendingCount: () => pending.length,
    isFull: (): boolean => lacksRoom || spool.refusedSinceMs !== null,
    start,
    append,
    whenCommitted,
    whenRoomInMemory,
    release,
    fetch,
    markDone,
    flush,
    close,
  };
  log.info('spool opened', { spoolId, nextSeq, depth: state.depth, bytes: state.bytes });
  return { spool, deliveries };

  /**
   * Hands out every message that is not done, oldest first, and then new ones as they reach the disk. `deliver` answers
   * those that it does not keep in memory, and will `fetch`.
   */
  function start(deliver: (items: SpoolItem[]) => SpoolItem[]): void {
    reader = deliver;
    loadMore();
  }

  /** Answers its `seq`. `onCommitted` is called, in the order of the calls, when it would survive a power cut. */
  function append(message: SpooledMessage, delivery: Delivery | null, onCommitted: () => void): number {
    const item = { ...message, seq: nextSeq };
    nextSeq += 1;
    if (!isClosed) {
      pending.push({ item, delivery, onCommitted });
      pendingBytes += countBytes(item);
      startCommit();
    }
    return item.seq;
  }

  /** Calls back when all that was appended so far would survive a power cut. */
  function whenCommitted(callback: () => void): void {
    const last = pending.at(-1);
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
  function whenRoomInMemory(proceed: () => void): void {
    if (pendingBytes < maxPendingBytes) proceed();
    else waitingForMemory.push(proceed);
  }

  /** They were handed out and are not kept in memory now. */
  function release(items: SpoolItem[]): void {
    countHandedOut(items, -1);
    loadMore();
  }

  /** Messages that were released, in the order of their numbers; resolves when the disk has them. */
  async function fetch(seqs: number[]): Promise<SpoolItem[]> {
    const items = await readUntilDone(() => thread.read('readThese', [seqs]));
    countHandedOut(items, 1);
    return items;
  }

  /** The Worker has answered for it, or it lies in the dead letters. */
  function markDone(item: SpoolItem): void {
    doneSeqs.push(item.seq);
    spool.depth -= 1;
    spool.bytes -= countBytes(item);
    countHandedOut([item], -1);
    if (spool.isFull()) startCommit();
    else deleteSoon();
    loadMore();
  }

  async function flush(maxMs: number): Promise<void> {
    await Promise.race([commit, wait(maxMs, undefined, { ref: false })]);
  }

  /** Writes what waits, unless the disk refuses, and closes the database. Nothing may be appended afterwards. */
  async function close(): Promise<void> {
    isClosed = true;
    startCommit();
    await commit;
    clearTimeout(deleteTimer);
    await load;
    await thread.call('close', []);
  }

  function startCommit(): void {
    if (pending.length > 0 || doneSeqs.length > 0) commit ??= commitAll();
  }

  async function commitAll(): Promise<void> {
    // One turn of the loop gathers all messages of one read from the broker into the first group.
    for (let gathered = nextTurn(); ; gathered = wait(gatherMs)) {
      await gathered;
      const group = takeGroup();
      const finished = doneSeqs.slice();
      if (group.length === 0 && finished.length === 0) break;
      const session = group.findLast(({ delivery }) => delivery !== null)?.delivery?.session ?? spooledSession;
      try {
        const added = group.length === 0 ? null : groupOf(group, session, session !== spooledSession);
        await thread.call('commit', [added, Float64Array.from(finished)]);
        spool.refusedSinceMs = null;
      } catch (error) {
        spool.refusedSinceMs ??= Date.now();
        log.error('the disk refuses the spool: messages wait unacknowledged', {
          alarm: true,
          cause: describeError(error),
        });
        if (isClosed) break;
        await wait(diskRetryMs);
        continue;
      }
      spooledSession = session;
      doneSeqs.splice(0, finished.length);
      noteCommitted(group);
      if (pending.length === 0 && !isClosed) break;
    }
    commit = null;
    clearTimeout(deleteTimer);
    deleteTimer = undefined;
    if (doneSeqs.length > 0) deleteSoon();
  }

  function deleteSoon(): void {
    deleteTimer ??= setTimeout(startCommit, deleteAfterMs).unref();
  }

  function takeGroup(): Pending[] {
    const roomBytes = maxBytes - spool.bytes;
    let bytes = 0;
    let count = 0;
    for (const { item } of pending) {
      const size = countBytes(item);
      // An empty spool takes even a message that is larger than it may be: it would wait for ever.
      const hasRoom = bytes + size <= roomBytes || (count === 0 && spool.depth === 0);
      if (!hasRoom || (count > 0 && bytes + size > maxGroupBytes)) break;
      bytes += size;
      count += 1;
    }
    noteRoom(count === 0 && pending.length > 0);
    return pending.slice(0, count);
  }

  function noteRoom(isFull: boolean): void {
    if (isFull === lacksRoom) return;
    lacksRoom = isFull;
    const fields = { bytes: spool.bytes, depth: spool.depth };
    if (!lacksRoom) log.info('the spool has room again', fields);
    else log.error('the spool is full: messages wait unacknowledged at the broker', { alarm: true, ...fields });
  }

  function noteCommitted(group: Pending[]): void {
    pending.splice(0, group.length);
    const items = group.map(({ item }) => item);
    const bytes = items.reduce((sum, item) => sum + countBytes(item), 0);
    pendingBytes -= bytes;
    spool.bytes += bytes;
    spool.depth += items.length;
    unread += items.length;
    const hasRoom = handedOut.items < maxHandedOut.items && handedOut.bytes < maxHandedOut.bytes;
    if (unread === items.length && load === null && hasRoom) handOut(items);
    else loadMore();
    for (const { onCommitted } of group) onCommitted();
    if (pendingBytes < maxPendingBytes) {
      for (const proceed of waitingForMemory.splice(0)) proceed();
    }
  }

  function handOut(items: SpoolItem[]): void {
    const last = items.at(-1);
    if (last === undefined) return;
    const released = reader?.(items) ?? [];
    countHandedOut(items, 1);
    countHandedOut(released, -1);
    unread -= items.length;
    lastHandedOut = last.seq;
  }

  function countHandedOut(items: SpoolItem[], sign: 1 | -1): void {
    handedOut.items += sign * items.length;
    for (const { payload } of items) handedOut.bytes += sign * payload.length;
  }

  function loadMore(): void {
    if (unread === 0 || reader === null || isClosed) return;
    if (handedOut.items * 2 > maxHandedOut.items || handedOut.bytes * 2 > maxHandedOut.bytes) return;
    load ??= loadFromDisk();
  }

  async function loadFromDisk(): Promise<void> {
    const items = await readUntilDone(async () => {
      const next = await thread.read('read', [lastHandedOut, readAtOnce.items, readAtOnce.bytes]);
      if (next.length === 0) throw new Error(`${unread} messages are missing`);
      return next;
    });
    handOut(items);
    load = null;
    loadMore();
  }

  /** Tries again while the disk refuses. Answers nothing if the spool is closed meanwhile. */
  async function readUntilDone(read: () => Promise<SpoolItem[]>): Promise<SpoolItem[]> {
    for (;;) {
      try {
        const items = await read();
        spool.isUnreadable = false;
        return items;
      } catch (error) {
        spool.isUnreadable = true;
        log.error('the spool cannot be read', { alarm: true, cause: describeError(error) });
        if (isClosed) return [];
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
