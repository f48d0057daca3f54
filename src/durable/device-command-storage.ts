// Where the commands of one device are kept: a ring of the last hundred, one row each, and the answers that may be
// asked for again by an Idempotency-Key. Decides nothing.
import type { Command } from '../domain/command-life.ts';
import { historySize } from './device-storage.ts';

export type Repeatable = {
  /** Of the request: the same key with another one is a mistake of the caller. */
  digest: string;
  commandId: string;
  deviceOnline: boolean;
  expiresAtMs: number;
  /** null while the broker is asked, or for good where the object died over it. */
  isSent: boolean | null;
};

const repeatableForMs = 24 * 3_600_000;
/** Expired keys are looked for this often: finding them reads the table. */
const cleanEvery = 64;

export class DeviceCommandStorage {
  readonly #sql: SqlStorage;
  #lastNumber: number | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  nextNumber(): number {
    this.#lastNumber ??= this.#sql
      .exec<{ last: number }>('SELECT coalesce(max(number), 0) AS last FROM command')
      .one().last;
    return (this.#lastNumber += 1);
  }

  /** Takes the place of the oldest of a hundred. */
  add(command: Command, isOpen: boolean): void {
    this.#sql.exec(
      'INSERT OR REPLACE INTO command (slot, number, id, json, is_open) VALUES (?, ?, ?, ?, ?)',
      command.number % historySize,
      command.number,
      command.commandId,
      JSON.stringify(command),
      isOpen ? 1 : 0,
    );
  }

  update(command: Command, isOpen: boolean): void {
    const json = JSON.stringify(command);
    this.#sql.exec('UPDATE command SET json = ?, is_open = ? WHERE id = ?', json, isOpen ? 1 : 0, command.commandId);
  }

  find(commandId: string): Command | undefined {
    return this.#read('SELECT json FROM command WHERE id = ?', commandId)[0];
  }

  /** Newest first. */
  list(): Command[] {
    return this.#read('SELECT json FROM command ORDER BY number DESC');
  }

  /** Newest first. */
  listOpen(limit: number): Command[] {
    return this.#read('SELECT json FROM command WHERE is_open = 1 ORDER BY number DESC LIMIT ?', limit);
  }

  findRepeatable(key: string, nowMs: number): Repeatable | undefined {
    const [row] = this.#sql
      .exec<{ json: string }>(
        'SELECT json FROM repeatable WHERE key = ? AND created_at > ?',
        key,
        nowMs - repeatableForMs,
      )
      .toArray();
    return row && (JSON.parse(row.json) as Repeatable);
  }

  putRepeatable(key: string, repeatable: Repeatable, nowMs: number): void {
    if (Math.random() * cleanEvery < 1) {
      this.#sql.exec('DELETE FROM repeatable WHERE created_at <= ?', nowMs - repeatableForMs);
    }
    this.#sql.exec('INSERT OR REPLACE INTO repeatable VALUES (?, ?, ?)', key, nowMs, JSON.stringify(repeatable));
  }

  #read(query: string, ...bindings: (string | number)[]): Command[] {
    return this.#sql
      .exec<{ json: string }>(query, ...bindings)
      .toArray()
      .map(({ json }) => JSON.parse(json) as Command);
  }
}
