// Storage of one DeviceSession: its tables, and reading and writing them. Decides nothing. Slices are JSON rows that change together;
// an object that was never provisioned has no table, and reading it writes nothing. `version` tells a later form of the tables apart.
import { isKept, type Command } from '../../domain/device/commands/command-life.ts';
import { maxOpen, type IdempotencyRecord } from '../../domain/device/commands/commands.ts';
import {
  daysKept,
  historySize,
  type GuestEntry,
  type HistoryEntry,
  type JournalEntry,
  type Transition,
} from '../../domain/device/core/history.ts';
import { readState, type DeviceSettings, type DeviceState, type SavedRows } from '../../domain/device/core/state.ts';
import { runSize, type Run } from '../../domain/device/times/ledger.ts';
import { dayMs } from '../../domain/time.ts';
import { eventRingSize, type EventGap, type OutgoingEvent } from '../../domain/webhooks/webhooks.ts';

/** Entries of the rings of history. */
const ringSizes = {
  transition: historySize,
  journal: historySize,
  guest: historySize,
  run: runSize,
  event: eventRingSize,
  ...daysKept,
} as const;
/** Tables that a new owner finds empty. */
const tables = ['slice', 'command', 'idempotency_record', ...Object.keys(ringSizes)];

/** With a rowid: without, a row of more than a quarter of a page has its rest elsewhere, and each write changes four pages. */
const creation = `
  CREATE TABLE version (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER);
  INSERT INTO version (id, number) VALUES (1, 1);
  CREATE TABLE slice (name TEXT PRIMARY KEY, json TEXT NOT NULL);
  CREATE TABLE command (
    slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, id TEXT NOT NULL, is_open INTEGER NOT NULL, json TEXT NOT NULL
  );
  CREATE TABLE idempotency_record (key TEXT PRIMARY KEY, created_at INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX idempotency_record_age ON idempotency_record (created_at);`;
const ringCreation = (ring: string) =>
  `CREATE TABLE ${ring} (slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, json TEXT NOT NULL)`;

const idempotencyRecordLifeMs = dayMs;
/** Beyond them the oldest is forgotten: one command in 9 s, all day. */
const maxIdempotencyRecords = 10_000;
/** Records that are over are looked for this often: counting them reads the index. */
const cleanEvery = 64;

export class DeviceStorage {
  readonly #sql: SqlStorage;
  #lastNumber: number | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Reads the last saved state. Commands are read by `listOpenCommands`. */
  load(settings: DeviceSettings): DeviceState | 'unused' | 'deleted' {
    if (this.#hasTable('deleted')) return 'deleted';
    if (!this.hasSlices()) return 'unused';
    const rows = this.#sql.exec<{ name: string; json: string }>('SELECT name, json FROM slice').toArray();
    const saved = Object.fromEntries(rows.map(({ name, json }) => [name, JSON.parse(json) as unknown]));
    const state = readState(settings, saved as SavedRows);
    const last = Math.max(state.outgoing.last, this.#lastOf('event'));
    return { ...state, outgoing: { ...state.outgoing, last } };
  }

  create(): void {
    this.#sql.exec(creation);
    for (const ring of Object.keys(ringSizes)) this.#sql.exec(ringCreation(ring));
  }

  replaceByTombstone(): void {
    for (const table of ['version', ...tables]) this.#sql.exec(`DROP TABLE ${table}`);
    this.#sql.exec('CREATE TABLE deleted (id INTEGER PRIMARY KEY)');
  }

  /** The device has another owner: all slices that are not initial are written after this. */
  forgetOwner(): void {
    for (const table of tables) this.#sql.exec(`DELETE FROM ${table}`);
    this.#lastNumber = undefined;
  }

  writeSlices(rows: SavedRows): void {
    for (const [name, row] of Object.entries(rows)) {
      // In its place: a row that is replaced leaves the index of the names, and enters it again.
      this.#sql.exec(
        'INSERT INTO slice (name, json) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET json = excluded.json',
        name,
        JSON.stringify(row),
      );
    }
  }

  readRow(name: string): unknown {
    if (!this.hasSlices()) return undefined;
    return this.#readJson<unknown>('SELECT json FROM slice WHERE name = ?', name)[0];
  }

  appendHistory(entries: readonly HistoryEntry[]): void {
    for (const [kind, size] of Object.entries(ringSizes)) {
      const own = entries.filter((entry) => entry.kind === kind).slice(-size);
      if (own.length === 0) continue;
      const rows = own.map(({ number, entry }) => [number % size, number, JSON.stringify(entry)]);
      this.#sql.exec(
        `INSERT OR REPLACE INTO ${kind} (slot, number, json)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)`,
        JSON.stringify(rows),
      );
    }
  }

  /** All of it, oldest first. */
  listHistory(): HistoryEntry[] {
    return Object.keys(ringSizes).flatMap((kind) => {
      const query = `SELECT number, json FROM ${kind} ORDER BY number`;
      const rows = this.#sql.exec<{ number: number; json: string }>(query).toArray();
      return rows.map(({ number, json }) => ({ kind, number, entry: JSON.parse(json) as never }) as HistoryEntry);
    });
  }

  listEvents(): { transitions: Transition[]; journal: JournalEntry[]; guests: GuestEntry[] } {
    return {
      transitions: this.#newest('transition'),
      journal: this.#newest('journal'),
      guests: this.#newest('guest'),
    };
  }

  listRuns(): Run[] {
    return this.#newest('run');
  }

  /** Rows of these days, oldest first. */
  listDays(kind: keyof typeof daysKept, first: number, last: number): unknown[] {
    return this.#readJson(`SELECT json FROM ${kind} WHERE number BETWEEN ? AND ? ORDER BY number`, first, last);
  }

  /** The next events after that number, oldest first, and what the ring no longer has of them. `last`: of the newest event. */
  listEventsAfter(after: number, last: number, count: number): { events: OutgoingEvent[]; gap: EventGap | null } {
    const oldest = Math.max(after + 1, last - eventRingSize + 1);
    const length = Math.min(count, last - oldest + 1);
    const slots = Array.from({ length }, (_, index) => (oldest + index) % eventRingSize);
    const events = this.#readJson<OutgoingEvent>(
      'SELECT json FROM event WHERE slot IN (SELECT value FROM json_each(?)) AND number >= ? ORDER BY number LIMIT ?',
      ...[JSON.stringify(slots), oldest, count],
    );
    // Less than the ring keeps: the device had another owner before.
    const to = (events[0]?.number ?? last + 1) - 1;
    return { events, gap: to > after ? { from: after + 1, to } : null };
  }

  nextCommandNumber(): number {
    this.#lastNumber ??= this.#lastOf('command');
    return (this.#lastNumber += 1);
  }

  writeCommand(command: Command, nowMs: number): void {
    this.#sql.exec(
      'INSERT OR REPLACE INTO command (slot, number, id, is_open, json) VALUES (?, ?, ?, ?, ?)',
      command.number % historySize,
      command.number,
      command.commandId,
      isKept(command, nowMs) ? 1 : 0,
      JSON.stringify(command),
    );
  }

  findCommand(commandId: string): Command | undefined {
    return this.#readJson<Command>('SELECT json FROM command WHERE id = ?', commandId)[0];
  }

  listCommands(): Command[] {
    return this.#newest('command');
  }

  newestCommand(): Command | undefined {
    return this.#newest<Command>('command', 1)[0];
  }

  listOpenCommands(): Command[] {
    return this.#readJson('SELECT json FROM command WHERE is_open = 1 ORDER BY number DESC LIMIT ?', maxOpen);
  }

  findIdempotencyRecord(key: string, nowMs: number): IdempotencyRecord | undefined {
    const oldestMs = nowMs - idempotencyRecordLifeMs;
    const query = 'SELECT json FROM idempotency_record WHERE key = ? AND created_at > ?';
    return this.#readJson<IdempotencyRecord>(query, key, oldestMs)[0];
  }

  writeIdempotencyRecord(record: IdempotencyRecord, nowMs: number): void {
    if (Math.random() * cleanEvery < 1) {
      this.#sql.exec(
        `DELETE FROM idempotency_record WHERE created_at <= max(?, coalesce(
           (SELECT created_at FROM idempotency_record ORDER BY created_at DESC LIMIT 1 OFFSET ?), 0))`,
        nowMs - idempotencyRecordLifeMs,
        maxIdempotencyRecords,
      );
    }
    this.#sql.exec(
      'INSERT OR REPLACE INTO idempotency_record (key, created_at, json) VALUES (?, ?, ?)',
      record.key,
      record.createdAtMs,
      JSON.stringify(record),
    );
  }

  /** False before the device was made, and after it was deleted. */
  hasSlices(): boolean {
    return this.#hasTable('slice');
  }

  #hasTable(name: string): boolean {
    return this.#sql.exec('SELECT 1 FROM sqlite_master WHERE name = ?', name).toArray().length > 0;
  }

  #newest<T>(table: string, count = -1): T[] {
    return this.#readJson(`SELECT json FROM ${table} ORDER BY number DESC LIMIT ?`, count);
  }

  #lastOf(table: string): number {
    return this.#sql.exec<{ last: number }>(`SELECT coalesce(max(number), 0) AS last FROM ${table}`).one().last;
  }

  #readJson<T>(query: string, ...bindings: (string | number)[]): T[] {
    const rows = this.#sql.exec<{ json: string }>(query, ...bindings).toArray();
    return rows.map(({ json }) => JSON.parse(json) as T);
  }
}
