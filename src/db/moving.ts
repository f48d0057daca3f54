// Rows of whole tables for an export, and into them from an import. Knows no object. Values are SQLite's own: JSON is text here.
import { sql } from 'drizzle-orm';
import { getTableConfig } from 'drizzle-orm/sqlite-core';
import { canonicalJson } from '../domain/json.ts';
import { invalidInput } from '../domain/refusal.ts';
import type { MovedPlace, MovedRow } from '../protocol/operator.ts';
import { isDatabaseAway, runTogether, type Database } from './client.ts';
import { apiKeys, blockedSenders, collections, userLimits, users } from './schema/accounts.ts';
import { deviceInvitations, deviceMembers, devices, deviceTransfers } from './schema/devices.ts';
import { products, productUsage } from './schema/products.ts';

/** In the order in which rows refer to each other. Sessions, tokens, events of accounts and what jobs have left over stay. */
const ofDevices = [devices, deviceMembers, deviceInvitations, deviceTransfers];
const ofProducts = [products, productUsage];
const moved = [users, userLimits, blockedSenders, ...ofProducts, ...ofDevices, apiKeys, collections].map((table) => {
  const { name, columns, primaryKeys } = getTableConfig(table);
  // Triggers write `search_name`.
  const stored = columns.filter((column) => column.generated === undefined && column.name !== 'search_name');
  const key = primaryKeys[0]?.columns ?? stored.filter(({ primary }) => primary);
  return { table, name, columns: stored.map((column) => column.name), key: key.map((column) => column.name) };
});

/** @throws RefusedError invalid_input for another table */
function findMoved(name: string) {
  const found = moved.find((other) => other.name === name);
  if (found === undefined) throw invalidInput('in', 'is no table of an export');
  return found;
}

/** `next`: of the page behind it; null at the end. */
export async function listRows(db: Database, after: MovedPlace | null, limit: number) {
  const from = findMoved(after?.in ?? 'users');
  const { table, name, columns } = from;
  const rows = await db.all<MovedRow & { at: number }>(sql`
    select rowid as at, ${listOf(columns)} from ${table} where rowid > ${after?.at ?? 0} order by rowid limit ${limit}`);
  const lines = rows.map(({ at, ...row }) => ({ in: name, at, row }));
  const last = lines.length < limit ? undefined : lines.at(-1);
  const following = moved[moved.indexOf(from) + 1];
  return { lines, next: last ? { in: name, at: last.at } : following ? { in: following.name, at: 0 } : null };
}

/** @throws RefusedError invalid_input for rows with other columns than the table or each other */
export async function compareRows(db: Database, name: string, rows: readonly MovedRow[]) {
  const { table, columns, key } = findMoved(name);
  const given = Object.keys(rows[0] ?? {});
  const isAlike = rows.every((row) => Object.keys(row).join() === given.join());
  if (!isAlike || !given.every((column) => columns.includes(column)) || !key.every((column) => given.includes(column)))
    throw invalidInput('lines', `${name} has other columns here: the export is of another version`);
  const found = await db.all<MovedRow>(
    sql`select ${listOf(given)} from ${table} where (${listOf(key)}) in (${valuesOf(key, rows)})`,
  );
  const keyOf = (row: MovedRow) => JSON.stringify(key.map((column) => row[column]));
  const byKey = new Map(found.map((row) => [keyOf(row), canonicalJson(row)]));
  return rows.map((row) => {
    const other = byKey.get(keyOf(row));
    return other === undefined ? 'absent' : other === canonicalJson(row) ? 'same' : 'differs';
  });
}

/** After `compareRows`. A row whose key or name is taken is left out. Counters follow by triggers. */
export async function insertRows(db: Database, name: string, rows: readonly MovedRow[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {});
  const { table } = findMoved(name);
  const values = valuesOf(columns, rows);
  try {
    await runTogether(db, [sql`insert into ${table} (${listOf(columns)}) ${values} where true on conflict do nothing`]);
  } catch (error) {
    if (isDatabaseAway(error)) throw error;
    throw invalidInput('lines', `rows of ${name} do not fit: ${String(error)}`);
  }
}

const listOf = (columns: readonly string[]) => sql.join(columns.map(sql.identifier), sql`, `);

function valuesOf(columns: readonly string[], rows: readonly MovedRow[]) {
  const values = columns.map((column) => sql`value ->> ${`$.${column}`}`);
  return sql`select ${sql.join(values, sql`, `)} from json_each(${JSON.stringify(rows)})`;
}
