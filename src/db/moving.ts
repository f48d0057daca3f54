// Rows of whole tables for an export, and into them from an import. Knows no object. Values are SQLite's own: JSON is text here.
import { getTableColumns, sql } from 'drizzle-orm';
import { getTableConfig, type SQLiteTable } from 'drizzle-orm/sqlite-core';
import { canonicalJson } from '../domain/json.ts';
import { invalidInput } from '../domain/refusal.ts';
import type { MovedRow, MovedTable } from '../protocol/operator.ts';
import { isDatabaseAway, runTogether, type Database } from './client.ts';
import { apiKeys, blockedSenders, collections, userLimits, users } from './schema/accounts.ts';
import { deviceInvitations, deviceMembers, devices, deviceTransfers } from './schema/devices.ts';
import { products } from './schema/products.ts';

const tables: Record<MovedTable, SQLiteTable> = {
  users,
  user_limits: userLimits,
  blocked_senders: blockedSenders,
  products,
  devices,
  api_keys: apiKeys,
  device_members: deviceMembers,
  device_invitations: deviceInvitations,
  device_transfers: deviceTransfers,
  collections,
};

export async function listRows(db: Database, name: MovedTable, after: number, limit: number) {
  const { columns } = shapeOf(name);
  const rows = await db.all<MovedRow & { at: number }>(sql`
    select rowid as at, ${listOf(columns)} from ${tables[name]} where rowid > ${after} order by rowid limit ${limit}`);
  return rows.map(({ at, ...row }) => ({ at, row }));
}

export type RowFinding = 'same' | 'differs' | 'absent';

/** @throws RefusedError invalid_input for a column that the table lacks */
export async function compareRows(db: Database, name: MovedTable, rows: readonly MovedRow[]): Promise<RowFinding[]> {
  const { columns, key } = shapeOf(name);
  const given = Object.keys(rows[0] ?? {});
  const isFit = rows.every((row) => Object.keys(row).join() === given.join());
  if (!isFit || given.some((column) => !columns.includes(column)) || key.some((column) => !given.includes(column))) {
    throw invalidInput('lines', `the columns of ${name} are others here: the export is of another version`);
  }
  const keys = sql`select ${valuesOf(key)} from json_each(${JSON.stringify(rows)})`;
  const found = await db.all<MovedRow>(
    sql`select ${listOf(given)} from ${tables[name]} where (${listOf(key)}) in (${keys})`,
  );
  const keyOf = (row: MovedRow) => JSON.stringify(key.map((column) => row[column]));
  const byKey = new Map(found.map((row) => [keyOf(row), row]));
  return rows.map((row) => {
    const other = byKey.get(keyOf(row));
    if (other === undefined) return 'absent';
    return canonicalJson(other) === canonicalJson(row) ? 'same' : 'differs';
  });
}

/** A row whose key or name is taken is left out. Counters follow by triggers. */
export async function insertRows(db: Database, name: MovedTable, rows: readonly MovedRow[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {});
  const values = sql`select ${valuesOf(columns)} from json_each(${JSON.stringify(rows)})`;
  try {
    await runTogether(db, [
      sql`insert into ${tables[name]} (${listOf(columns)}) ${values} where true on conflict do nothing`,
    ]);
  } catch (error) {
    if (isDatabaseAway(error)) throw error;
    throw invalidInput('lines', `rows of ${name} do not fit: ${String(error)}`);
  }
}

/** Triggers write `search_name`. */
function shapeOf(name: MovedTable) {
  const { primaryKeys } = getTableConfig(tables[name]);
  const columns = Object.values(getTableColumns(tables[name])).filter(({ generated }) => generated === undefined);
  const key = primaryKeys[0]?.columns ?? columns.filter(({ primary }) => primary);
  const names = columns.map((column) => column.name).filter((column) => column !== 'search_name');
  return { columns: names, key: key.map((column) => column.name) };
}

const listOf = (columns: readonly string[]) =>
  sql.join(
    columns.map((column) => sql.identifier(column)),
    sql`, `,
  );
const valuesOf = (columns: readonly string[]) =>
  sql.join(
    columns.map((column) => sql`value ->> ${`$.${column}`}`),
    sql`, `,
  );
