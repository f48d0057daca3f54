// The spool's tables in SQLite, one transaction a call. Runs in the spool's thread, because every call blocks until the
// disk has answered. It must not decide when to write, retry or stop.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describeError } from '../../../node-service/log.ts';

/** `seq` is positive, grows within one spool and is never given twice. */
export type SpoolItem = {
  seq: number;
  receivedAtMs: number;
  topic: string;
  payload: Buffer;
  retain: boolean;
  dup: boolean;
  soleReader: boolean;
  redeliveryOf: number | null;
  /** How long the payload was if `payload` is only its head; null if it is whole. */
  trueBytes: number | null;
};

type Flag = 'retain' | 'dup' | 'soleReader';
type MessageRow = Omit<SpoolItem, Flag> & Record<Flag, number>;

/** Items with growing `seq`, and the deliveries of the present broker session among them. */
export type SpoolGroup = {
  items: SpoolItem[];
  /** Packet id, digest and `seq` of the first delivery, one delivery after the other. */
  deliveries: Float64Array;
  /** The deliveries known so far belong to an earlier broker session. */
  forgetsDeliveries: boolean;
};

export type OpenedSpool = {
  spoolId: string;
  lastSeq: number;
  /** When the last message was received, 0 before the first. */
  lastReceivedAtMs: number;
  depth: number;
  bytes: number;
  /** Packet id, digest and `seq` of the last deliveries of the present broker session, oldest first. */
  deliveries: Float64Array;
};

export const itemOverheadBytes = 64;

/** As many as MQTT can have under way: mosquitto 2.0.11 exceeds the limit it is given, and delivers all of them again. */
const maxDeliveries = 65_535;
const numbersPerDelivery = 3;
const formatVersion = 1;
const walPages = 2000;
const sqliteBusy = 5;
const sqliteDamaged: unknown[] = [11, 26];

const schema = `
  CREATE TABLE spool (
    spool_id TEXT NOT NULL,
    bridge_id TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    last_received_at_ms INTEGER NOT NULL
  );
  CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    received_at_ms INTEGER NOT NULL,
    topic TEXT NOT NULL,
    payload BLOB NOT NULL,
    retain INTEGER NOT NULL DEFAULT 0,
    dup INTEGER NOT NULL DEFAULT 0,
    sole_reader INTEGER NOT NULL DEFAULT 0,
    redelivery_of INTEGER,
    true_bytes INTEGER
  );
  CREATE TABLE delivery_group (last_number INTEGER PRIMARY KEY, entries BLOB NOT NULL);
  PRAGMA user_version = ${formatVersion};
`;

const selectMessages = `SELECT seq, received_at_ms AS receivedAtMs, topic, payload, retain, dup,
  sole_reader AS soleReader, redelivery_of AS redeliveryOf, true_bytes AS trueBytes FROM message`;

export type SpoolDatabase = ReturnType<typeof useDatabase>;

/**
 * Null while another process has the folder: SQLite's exclusive lock ends with its process, however that ends.
 * @throws Error that says what to do
 */
export function openDatabase(dir: string): SpoolDatabase | null {
  const path = join(dir, 'spool.sqlite');
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(path);
    // Exclusive from the first access on. FULL: a commit returns when it would survive a power cut.
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    database.exec(`PRAGMA wal_autocheckpoint = ${walPages}`);
    createTables(database);
    const check = database.prepare('PRAGMA quick_check(1)').get()?.['quick_check'];
    if (check !== 'ok') throw new DamageError(String(check));
    return useDatabase(database);
  } catch (error) {
    database?.close();
    if (readErrorCode(error) === sqliteBusy) return null;
    throw new Error(explainUnopened(path, error), { cause: error });
  }
}

function useDatabase(database: DatabaseSync) {
  const insert = database.prepare(
    `INSERT INTO message (seq, received_at_ms, topic, payload, retain, dup, sole_reader, redelivery_of, true_bytes)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const deleteRange = database.prepare('DELETE FROM message WHERE seq BETWEEN ? AND ?');
  const addDeliveries = database.prepare('INSERT INTO delivery_group (last_number, entries) VALUES (?, ?)');
  const deleteDeliveries = database.prepare('DELETE FROM delivery_group WHERE last_number <= ?');
  /** Deliveries are numbered from 1 on; a group has the number of its last one. */
  let lastDelivery = 0;
  return { readState, commit, read, readThese, close: () => database.close() };

  /** @throws Error if the unsent messages belong to a bridge of another name */
  function readState(bridgeId: string): OpenedSpool {
    const row = database.prepare('SELECT * FROM spool').get();
    const { depth, bytes } = database
      .prepare(
        `SELECT count(*) AS depth, total(length(topic) + length(payload) + ${itemOverheadBytes}) AS bytes FROM message`,
      )
      .get() as { depth: number; bytes: number };
    const owner = row === undefined ? undefined : String(row['bridge_id']);
    if (row !== undefined && owner === bridgeId) {
      const deliveries = readDeliveries();
      const lastReceivedAtMs = Number(row['last_received_at_ms']);
      const { spool_id: spoolId, last_seq: lastSeq } = row;
      return { spoolId: String(spoolId), lastSeq: Number(lastSeq), lastReceivedAtMs, depth, bytes, deliveries };
    }
    if (owner !== undefined && depth > 0) {
      throw new Error(
        `the spool holds ${depth} unsent messages of the bridge ${owner}: start it as BRIDGE_ID=${owner} until they are sent, or choose another SPOOL_DIR`,
      );
    }
    // A folder that was copied from another bridge must not go on under the same name: `seq` would be given twice.
    const spoolId = `${bridgeId}-${randomBytes(8).toString('hex')}`;
    inTransaction(() => {
      database.exec('DELETE FROM spool; DELETE FROM delivery_group');
      database
        .prepare('INSERT INTO spool (spool_id, bridge_id, last_seq, last_received_at_ms) VALUES (?, ?, 0, 0)')
        .run(spoolId, bridgeId);
    });
    return { spoolId, lastSeq: 0, lastReceivedAtMs: 0, depth, bytes, deliveries: new Float64Array() };
  }

  /** Adds a group and deletes what is done, both or neither; returns when that would survive a power cut. */
  function commit(group: SpoolGroup | null, doneSeqs: Float64Array): void {
    const lastBefore = lastDelivery;
    try {
      inTransaction(() => {
        deleteSeqs(doneSeqs);
        if (group !== null) addGroup(group);
      });
    } catch (error) {
      lastDelivery = lastBefore;
      throw new AggregateError([error, ...makeRoom(doneSeqs)]);
    }
  }

  /** The oldest items after `seq`: at least one if there is any, whatever its size. */
  function read(afterSeq: number, maxItems: number, maxBytes: number): SpoolItem[] {
    const items: SpoolItem[] = [];
    let bytes = 0;
    const rows = database.prepare(`${selectMessages} WHERE seq > ? ORDER BY seq`);
    for (const row of rows.iterate(afterSeq) as Iterable<MessageRow>) {
      items.push(itemOf(row));
      bytes += row.payload.length;
      if (items.length >= maxItems || bytes >= maxBytes) break;
    }
    return items;
  }

  function readThese(seqs: number[]): SpoolItem[] {
    const rows = database.prepare(`${selectMessages} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq`);
    return (rows.all(JSON.stringify(seqs)) as MessageRow[]).map(itemOf);
  }

  function inTransaction(write: () => void): void {
    database.exec('BEGIN IMMEDIATE');
    try {
      write();
      database.exec('COMMIT');
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      throw error;
    }
  }

  function addGroup({ items, deliveries, forgetsDeliveries }: SpoolGroup): void {
    for (const { seq, receivedAtMs, topic, payload, redeliveryOf, trueBytes, ...flags } of items) {
      const [retain, dup, soleReader] = [Number(flags.retain), Number(flags.dup), Number(flags.soleReader)];
      insert.run(seq, receivedAtMs, topic, payload, retain, dup, soleReader, redeliveryOf, trueBytes);
    }
    const { seq: lastSeq, receivedAtMs: lastReceivedAtMs } = items.at(-1) ?? { seq: 0, receivedAtMs: 0 };
    database.exec(`UPDATE spool SET last_seq = ${lastSeq}, last_received_at_ms = ${lastReceivedAtMs}`);
    if (forgetsDeliveries) deleteDeliveries.run(lastDelivery);
    if (deliveries.length === 0) return;
    lastDelivery += deliveries.length / numbersPerDelivery;
    addDeliveries.run(lastDelivery, new Uint8Array(deliveries.buffer));
    deleteDeliveries.run(lastDelivery - maxDeliveries);
  }

  function readDeliveries(): Float64Array {
    const rows = database.prepare('SELECT last_number, entries FROM delivery_group ORDER BY last_number').all();
    lastDelivery = Number(rows.at(-1)?.['last_number'] ?? 0);
    const bytes = Buffer.concat(rows.map(({ entries }) => entries as Uint8Array));
    return new Float64Array(new Uint8Array(bytes).buffer);
  }

  /** Finished messages lie side by side for the most part: one statement for each range of them. */
  function deleteSeqs(doneSeqs: Float64Array): void {
    const sorted = doneSeqs.toSorted();
    for (let first = 0, next = 1; first < sorted.length; first = next, next += 1) {
      while (sorted[next] === (sorted[next - 1] ?? 0) + 1) next += 1;
      deleteRange.run(sorted[first] ?? 0, sorted[next - 1] ?? 0);
    }
  }

  /** For a full disk: gives back the space of the log and deletes without adding. Answers the errors. */
  function makeRoom(doneSeqs: Float64Array): unknown[] {
    try {
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      if (doneSeqs.length > 0) inTransaction(() => deleteSeqs(doneSeqs));
      return [];
    } catch (error) {
      return [error];
    }
  }
}

function itemOf(row: MessageRow): SpoolItem {
  const { retain, dup, soleReader } = row;
  return { ...row, retain: retain === 1, dup: dup === 1, soleReader: soleReader === 1 };
}

/** The disk refuses, and may stop doing so: nothing is damaged, and no other process has the folder. */
export function isByDisk(error: unknown): boolean {
  const code = readErrorCode(error instanceof Error ? (error.cause ?? error) : error);
  return code !== undefined && !sqliteDamaged.includes(code);
}

class DamageError extends Error {}

function createTables(database: DatabaseSync): void {
  const version = database.prepare('PRAGMA user_version').get()?.['user_version'];
  if (version === 0) database.exec(`BEGIN; ${schema} COMMIT`);
  else if (version !== formatVersion) throw new Error(`its format ${String(version)} is not known`);
}

function explainUnopened(path: string, error: unknown): string {
  const isDamaged = error instanceof DamageError || sqliteDamaged.includes(readErrorCode(error));
  const problem = `the spool ${path} ${isDamaged ? 'is damaged' : 'cannot be opened'} (${describeError(error).replaceAll('\n', ' ')})`;
  const remedy = isDamaged
    ? `copy it and what begins with its name, save what can be saved with: sqlite3 ${path} .recover, then remove the originals`
    : 'see to it that this process can read and write the file and its folder';
  return `${problem}, and may hold unsent messages: ${remedy}, and start again`;
}

/** SQLite's primary result code, undefined for anything else. */
function readErrorCode(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined;
  return typeof code === 'number' ? code & 0xff : undefined;
}
