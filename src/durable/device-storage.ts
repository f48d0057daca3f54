// Storage of one DeviceSession: its tables, their versions, and reading and writing them. Decides nothing.
// What changes together is one JSON row, because rows written are what a device costs; an object that was never
// provisioned has no table, and reading it writes nothing.
import type { MessagingCredential } from '../domain/messaging-credentials.ts';
import type { PresenceState } from '../domain/presence.ts';
import type { TransitionReason } from '../protocol/vocabulary.ts';
import { initialPresence } from '../domain/presence.ts';
import type { Json } from '../domain/property-report.ts';
import type { Position } from '../protocol/mqtt.ts';
import { noMarks, type UplinkMarks } from '../domain/uplink-marks.ts';

/** What the record in D1 says and a hot path needs; written at provisioning and by administration. */
export type DeviceRecord = {
  deviceId: string;
  productKey: string;
  ownerId: number;
  name: string;
  controlMode: string;
  offlineGraceSeconds: number;
  /** The change of the product that these two are from. */
  productChangedAtMs: number;
  isDisabled: boolean;
  secretDigest: string;
  credentials: MessagingCredential[];
  /** How often the credentials were revoked: a relay session that signed in before is over. */
  revocations: number;
};

export type LiveState = {
  presence: PresenceState;
  /** Number of the last presence transition. */
  transitions: number;
  /** Number of the last change D1 has to know of; it takes a copy only if it is newer than its own. */
  copyVersion: number;
  isCopyBehind: boolean;
  /** The alarm is set for the silence of the device, and so tells when its last sign of life was. */
  isAlarmForSilence: boolean;
  properties: [name: string, value: Json, arrivedAtMs: number][];
  marks: UplinkMarks;
  /** Relay shards that listen, each with the number of its last sign-up, and those of them that follow no commands. */
  listeners: { shard: string; signUp: number; ignoresCommands?: boolean }[];
  /** The service's own last status messages, newest last: the bridge hears them too and must not be believed. */
  announcements: { status: 'online' | 'offline'; time: number; isPublished: boolean }[];
  /** Credentials were revoked at a moment after which no login has come: what still arrives is not the device's. */
  isAwaitingLogin: boolean;
  /** What was said before belongs to a session whose credentials were revoked. */
  acceptedFromMs: number;
  /** Number of the last change of the position. */
  positionChanges: number;
};

export type RecordedTransition = {
  status: 'online' | 'offline';
  reason: TransitionReason;
  detail: string;
  time: number;
};

export type PositionChange = { position: Position; time: number };

/** How much of each kind of history a device keeps. */
export const historySize = 100;

const migrations: readonly string[] = [
  `CREATE TABLE record (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL);
   CREATE TABLE live (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL);
   CREATE TABLE transition (slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, json TEXT NOT NULL);
   CREATE TABLE position_change (slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, json TEXT NOT NULL);
   CREATE TABLE command (slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL);`,
  `ALTER TABLE command ADD COLUMN is_open INTEGER NOT NULL DEFAULT 0;
   CREATE TABLE repeatable (key TEXT PRIMARY KEY, created_at INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;`,
];

const tables = ['version', 'record', 'live', 'transition', 'position_change', 'command', 'repeatable'] as const;

export const initialLive: LiveState = {
  presence: initialPresence,
  transitions: 0,
  copyVersion: 0,
  isCopyBehind: false,
  isAlarmForSilence: false,
  properties: [],
  marks: noMarks,
  listeners: [],
  announcements: [],
  isAwaitingLogin: false,
  acceptedFromMs: 0,
  positionChanges: 0,
};

export class DeviceStorage {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** What the object was left as; brings its tables to the present version. */
  open(): 'unused' | 'provisioned' | 'deleted' {
    const names = this.#storage.sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE name IN ('version', 'deleted')")
      .toArray();
    if (names.some(({ name }) => name === 'deleted')) return 'deleted';
    if (names.length === 0) return 'unused';
    this.#migrate();
    return 'provisioned';
  }

  create(): void {
    this.#storage.sql.exec(
      'CREATE TABLE IF NOT EXISTS version (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER)',
    );
    this.#storage.sql.exec('INSERT OR IGNORE INTO version VALUES (1, 0)');
    this.#migrate();
  }

  /** Keeps nothing but that there was a device. */
  bury(): void {
    this.#storage.transactionSync(() => {
      for (const table of tables) this.#storage.sql.exec(`DROP TABLE ${table}`);
      this.#storage.sql.exec('CREATE TABLE deleted (id INTEGER PRIMARY KEY)');
    });
  }

  readRecord(): DeviceRecord {
    return this.#readRow('record') as DeviceRecord;
  }

  readLive(): LiveState {
    const live = this.#readRow('live') as LiveState;
    // A version that knows more members finds them at their initial value.
    return { ...initialLive, ...live, presence: { ...initialPresence, ...live.presence } };
  }

  writeRecord(record: DeviceRecord): void {
    this.#storage.sql.exec('INSERT OR REPLACE INTO record VALUES (1, ?)', JSON.stringify(record));
  }

  writeLive(live: LiveState): void {
    this.#storage.sql.exec('INSERT OR REPLACE INTO live VALUES (1, ?)', JSON.stringify(live));
  }

  addTransition(number: number, transition: RecordedTransition): void {
    this.#addToRing('transition', number, transition);
  }

  /** Newest first. */
  listTransitions(): RecordedTransition[] {
    return this.#listRing('transition') as RecordedTransition[];
  }

  addPositionChange(number: number, change: PositionChange): void {
    this.#addToRing('position_change', number, change);
  }

  /** Newest first. */
  listPositionChanges(): PositionChange[] {
    return this.#listRing('position_change') as PositionChange[];
  }

  #addToRing(table: 'transition' | 'position_change', number: number, entry: unknown): void {
    this.#storage.sql.exec(
      `INSERT OR REPLACE INTO ${table} VALUES (?, ?, ?)`,
      number % historySize,
      number,
      JSON.stringify(entry),
    );
  }

  #listRing(table: 'transition' | 'position_change'): unknown[] {
    const rows = this.#storage.sql.exec<{ json: string }>(`SELECT json FROM ${table} ORDER BY number DESC`);
    return rows.toArray().map((row) => JSON.parse(row.json) as unknown);
  }

  #readRow(table: 'record' | 'live'): unknown {
    return JSON.parse(this.#storage.sql.exec<{ json: string }>(`SELECT json FROM ${table}`).one().json) as unknown;
  }

  #migrate(): void {
    const { number } = this.#storage.sql.exec<{ number: number }>('SELECT number FROM version').one();
    for (const [index, statements] of migrations.entries()) {
      if (index < number) continue;
      this.#storage.transactionSync(() => {
        this.#storage.sql.exec(statements);
        this.#storage.sql.exec('UPDATE version SET number = ?', index + 1);
      });
    }
  }
}
