// Opens D1 for one request: `first-primary` for reads that decide (login, key check, activation), `first-unconstrained`
// for lists, which may read from a replica that lags.
import { count, type SQL, type SQLWrapper } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { SQLiteAsyncDialect, type SQLiteSelect, type SQLiteTable } from 'drizzle-orm/sqlite-core';
import { offsetOf, type PageRequest } from '../domain/pagination.ts';
import * as schema from './schema.ts';

export type Database = ReturnType<typeof openDatabase>;

export function openDatabase(binding: D1Database, consistency: 'first-primary' | 'first-unconstrained') {
  // Drizzle calls `prepare` and `batch` only; the type of a session lacks the other members.
  const session = binding.withSession(consistency) as unknown as D1Database;
  return drizzle(session, { schema });
}

const dialect = new SQLiteAsyncDialect();

/**
 * Runs raw statements with values as one transaction, which Drizzle's `batch` does not accept. Rows have the tables'
 * column names; `Rows` gives their type per statement.
 */
export async function runTogether<Rows extends unknown[]>(
  database: Database,
  statements: { [Index in keyof Rows]: SQLWrapper },
): Promise<{ [Index in keyof Rows]: D1Result<Rows[Index]> }> {
  const prepared = (statements as SQLWrapper[]).map((statement) => {
    const { sql, params } = dialect.sqlToQuery(statement.getSQL());
    return database.$client.prepare(sql).bind(...params);
  });
  return (await database.$client.batch(prepared)) as { [Index in keyof Rows]: D1Result<Rows[Index]> };
}

/**
 * One page of `query`, which lists the rows of `table` that match `where`, and the number of them all, read together. For
 * lists that a limit keeps short: both read what stands before the page.
 */
export async function readPage<Query extends SQLiteSelect>(
  database: Database,
  table: SQLiteTable,
  where: SQL | undefined,
  query: Query,
  page: PageRequest,
): Promise<{ total: number; rows: Query['_']['result'] }> {
  const all = database.select({ total: count() }).from(table).where(where);
  const [[counted], rows] = await database.batch([all, query.limit(page.size).offset(offsetOf(page))]);
  return { total: counted?.total ?? 0, rows };
}
